#include "watchdog/descriptors/high.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace ncclwatch::descriptors {
namespace {

TEST(HighDescriptors, LeaveTheLowestFreeNumberToTheProgram) {
  const int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(close(before), 0);
  const int ours = Open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_GE(ours, 512);
  EXPECT_EQ(after, before);
  EXPECT_EQ(fcntl(ours, F_GETFD), FD_CLOEXEC);
  char byte = 0;
  EXPECT_EQ(read(ours, &byte, 1), 1);
  close(ours);
  close(after);
}

TEST(HighDescriptors, DirectoriesAreReadFromThereToo) {
  DIR* const directory = OpenDirectory("/proc/self/task");
  ASSERT_NE(directory, nullptr);
  EXPECT_GE(dirfd(directory), 512);
  bool own = false;
  while (const dirent* entry = readdir(directory)) own |= entry->d_name == std::to_string(gettid());
  EXPECT_TRUE(own);
  EXPECT_EQ(closedir(directory), 0);
}

TEST(HighDescriptors, WhyNotIsReportedByErrno) {
  EXPECT_EQ(Open("/nowhere/at/all", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(OpenDirectory("/proc/self/stat"), nullptr);
  EXPECT_EQ(errno, ENOTDIR);
}

TEST(HighDescriptors, WithoutRoomThereTheyStayLow) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const int fd = Open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_GE(fd, 0);
  EXPECT_LT(fd, 100);
  close(fd);
}

}  // namespace
}  // namespace ncclwatch::descriptors
