#include "watchdog/rundir/sweep.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::rundir {
namespace {

namespace fs = std::filesystem;

class Sweeping : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-sweep-XXXXXX";
    top_ = mkdtemp(name);
    setenv("TMPDIR", top_.c_str(), 1);
    base_ = top_ + "/ncclwatch-" + std::to_string(geteuid());
    fs::create_directories(base_);
    fs::permissions(base_, fs::perms::owner_all);
  }
  void TearDown() override { fs::remove_all(top_); }

  // As a job left it, `age` ago, with so much in it.
  std::string Leftover(const std::string& name, std::chrono::seconds age, std::size_t bytes = 4096) {
    const std::string path = base_ + "/" + name;
    fs::create_directories(path + "/stacks");
    std::ofstream(path + "/job") << name << "\n";
    std::ofstream(path + "/stacks/1.txt") << std::string(bytes, 'x');
    for (const std::string& one : {path + "/stacks", path})
      fs::last_write_time(one, fs::file_time_type::clock::now() - age);
    return path;
  }
  void Sweep(settings::Keep keep) {
    keep.bytes = std::min<std::uint64_t>(keep.bytes, 1 << 30);
    rundir::Sweep sweep(keep, base_ + "/own");
    while (sweep.Step()) {
    }
  }

  std::string top_, base_;
};

TEST_F(Sweeping, RemovesWhatIsOfAgeAndNothingElse) {
  const std::string old = Leftover("old", std::chrono::hours(200)), young = Leftover("young", std::chrono::hours(1));
  const std::string own = Leftover("own", std::chrono::hours(200)), held = Leftover("held", std::chrono::hours(200));
  fs::create_directories(base_ + "/no-run");
  const int fd = open(held.c_str(), O_RDONLY | O_DIRECTORY);  // a job that is just beginning there
  ASSERT_EQ(flock(fd, LOCK_SH), 0);
  Sweep({});
  EXPECT_FALSE(fs::exists(old));
  for (const std::string& stays : {young, own, held, base_ + "/no-run"}) EXPECT_TRUE(fs::exists(stays)) << stays;
  close(fd);
}

TEST_F(Sweeping, KeepsTheNewestUpToASize) {
  const std::string a = Leftover("a", std::chrono::hours(1), 300 << 10),
                    b = Leftover("b", std::chrono::hours(2), 300 << 10),
                    c = Leftover("c", std::chrono::hours(3), 300 << 10);
  Sweep({.age_s = 86400, .bytes = 700 << 10, .all = false});
  EXPECT_TRUE(fs::exists(a));
  EXPECT_TRUE(fs::exists(b));
  EXPECT_FALSE(fs::exists(c));
}

TEST_F(Sweeping, KeepsAllWhereThatIsWanted) {
  const std::string old = Leftover("old", std::chrono::hours(2000));
  Sweep({.age_s = 1, .bytes = 1, .all = true});
  EXPECT_TRUE(fs::exists(old));
}

TEST_F(Sweeping, RemovesWhatWasBeingRemoved) {
  const std::string aside = Leftover(".gone.1.2", std::chrono::seconds(1));
  Sweep({});
  EXPECT_FALSE(fs::exists(aside));
}

}  // namespace
}  // namespace ncclwatch::rundir
