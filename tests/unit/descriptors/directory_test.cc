#include "watchdog/descriptors/directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

namespace ncclwatch::descriptors {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kSomebody = 65534;

class Directories : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-directory-XXXXXX";
    top_ = mkdtemp(name);
    fs::create_directories(top_ + "/place/run");
  }
  void TearDown() override { fs::remove_all(top_); }
  std::string Why(const std::string& path) const { return Directory::Own(top_ + path).reason(); }

  std::string top_;
};

TEST_F(Directories, OursAloneIsTaken) {
  const Directory directory = Directory::Own(top_ + "/place/run/");
  EXPECT_TRUE(directory) << directory.reason();
  EXPECT_EQ(directory.path(), top_ + "/place/run");
  EXPECT_EQ(directory.owner(), geteuid());
}

TEST_F(Directories, OneThatOthersMayWriteToIsRefused) {
  chmod((top_ + "/place/run").c_str(), 01777);
  EXPECT_NE(Why("/place/run").find("others may write to it"), std::string::npos) << Why("/place/run");
}

TEST_F(Directories, ALinkIsRefused) {
  fs::create_symlink(top_ + "/place/run", top_ + "/link");
  EXPECT_NE(Why("/link").find("a link"), std::string::npos) << Why("/link");
  EXPECT_FALSE(Directory::Own(top_ + "/link/"));
  EXPECT_TRUE(Directory::Own(top_ + "/place/../place/run"));
}

TEST_F(Directories, OneWhoseParentOthersMayWriteToIsRefused) {
  for (const mode_t mode : {0770, 0707, 02775}) {
    chmod((top_ + "/place").c_str(), mode);
    EXPECT_NE(Why("/place/run").find(top_ + "/place: others may write to it"), std::string::npos) << Why("/place/run");
  }
  chmod((top_ + "/place").c_str(), 01777);
  EXPECT_EQ(Why("/place/run"), "") << "nobody removes what is another's under the sticky bit";
}

TEST_F(Directories, WhatBelongsToSomebodyElseIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(chown((top_ + "/place/run").c_str(), kSomebody, kSomebody), 0);
  EXPECT_NE(Why("/place/run").find("belongs to somebody else"), std::string::npos) << Why("/place/run");
  ASSERT_EQ(chown((top_ + "/place/run").c_str(), 0, 0), 0);
  ASSERT_EQ(chown((top_ + "/place").c_str(), kSomebody, kSomebody), 0);
  EXPECT_NE(Why("/place/run").find("/place belongs to somebody else"), std::string::npos) << Why("/place/run");
  EXPECT_TRUE(Directory::Named(top_ + "/place/run")) << "named, to be read";
}

TEST_F(Directories, NoLinkBelowIsFollowed) {
  std::ofstream(top_ + "/secret") << "secret";
  fs::create_symlink(top_ + "/secret", top_ + "/place/run/file");
  fs::create_symlink(top_, top_ + "/place/run/folder");
  for (const Directory& directory : {Directory::Own(top_ + "/place/run"), Directory::Named(top_ + "/place/run")}) {
    EXPECT_EQ(directory.Open("file", O_RDONLY), -1);
    EXPECT_EQ(errno, ELOOP);
    EXPECT_EQ(directory.Open("folder/secret", O_RDONLY), -1);
    EXPECT_FALSE(directory.MakeFolder("folder"));
    EXPECT_EQ(directory.List("folder"), nullptr);
    EXPECT_FALSE(directory.Unlink("folder/secret"));
  }
  EXPECT_TRUE(fs::exists(top_ + "/secret"));
}

TEST_F(Directories, AnotherInItsPlaceIsNotUsed) {
  const Directory directory = Directory::Own(top_ + "/place/run");
  fs::rename(top_ + "/place/run", top_ + "/moved");
  fs::create_directories(top_ + "/place/run");
  EXPECT_TRUE(directory.MakeFolder("evidence"));
  EXPECT_TRUE(fs::exists(top_ + "/moved/evidence"));
  EXPECT_TRUE(fs::is_empty(top_ + "/place/run"));
}

// Of a host that closes what it does not know.
int CloseAll(const std::string& path) {
  struct stat wanted = {}, info = {};
  if (stat(path.c_str(), &wanted) != 0) return -1;
  int closed = -1;
  for (int fd = 3; fd < 1024; ++fd)
    if (fstat(fd, &info) == 0 && info.st_ino == wanted.st_ino && info.st_dev == wanted.st_dev && close(fd) == 0)
      closed = fd;
  return closed;
}

TEST_F(Directories, ADescriptorThatTheHostHasClosedIsOpenedAnew) {
  const Directory directory = Directory::Own(top_ + "/place/run");
  const int number = CloseAll(directory.path());
  ASSERT_GE(number, 0);
  const int hosts = open("/tmp", O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(dup2(hosts, number), number);
  EXPECT_TRUE(directory.MakeFolder("evidence"));
  EXPECT_TRUE(fs::exists(top_ + "/place/run/evidence"));
  EXPECT_GE(fcntl(number, F_GETFD), 0) << "the host's file stays open";
  close(number);
  close(hosts);
}

TEST_F(Directories, AndNotIfAnotherHasItsNameByThen) {
  const Directory directory = Directory::Own(top_ + "/place/run");
  ASSERT_GE(CloseAll(directory.path()), 0);
  fs::rename(top_ + "/place/run", top_ + "/moved");
  fs::create_directories(top_ + "/place/run");
  EXPECT_FALSE(directory.MakeFolder("evidence"));
  EXPECT_EQ(errno, ESTALE);
}

}  // namespace
}  // namespace ncclwatch::descriptors
