// What is parsed of /proc and of control groups.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "analyzer/stacks/base/maps.h"
#include "analyzer/stacks/process/cgroup.h"
#include "analyzer/stacks/process/sockets.h"
#include "analyzer/stacks/process/words.h"
#include "analyzer/stacks/threads/proc_thread.h"
#include "analyzer/stacks/unwind/interrupted.h"

#include <sys/syscall.h>

namespace ncclwatch::stacks {
namespace {

TEST(Maps, Lines) {
  const Maps maps(
      "00400000-00401000 r-xp 00000000 fe:01 12                                 /usr/bin/a b\n"
      "nonsense\n"
      "7f0000000000-7f0000002000 rw-p 00000000 00:00 0 \n"
      "7f0000002000-7f0000003000 r-xp 00001000 00:2a 99                         /tmp/gone.so (deleted)\n"
      "7ffd0000-7ffd1000 r-xp 00000000 00:00 0                                  [vdso]");
  ASSERT_EQ(maps.all().size(), 4u);
  EXPECT_EQ(maps.all()[0].path, "/usr/bin/a b");
  EXPECT_EQ(maps.all()[0].inode, 12u);
  EXPECT_EQ(maps.all()[0].device_major, 0xfeu);
  EXPECT_TRUE(maps.all()[0].executable);
  EXPECT_EQ(maps.At(0x7ffd0fff)->path, "[vdso]");
  EXPECT_TRUE(maps.At(0x7f0000002000)->deleted);
  EXPECT_EQ(maps.At(0x7f0000002fff)->path, "/tmp/gone.so");
  EXPECT_EQ(maps.At(0x7f0000001000)->path, "");
  EXPECT_EQ(maps.At(0x7f0000003000), nullptr);
  EXPECT_EQ(maps.At(0), nullptr);
}

TEST(Maps, NoTextIsTooOdd) {
  for (const char* text : {"", "\n", "-", "1-2", "1-2 ", "1-2 rwxp", "2-1 rwxp 0 0:0 0", "1-2 r-xp 0 0:0", "zz-1 r"})
    EXPECT_TRUE(Maps(text).all().empty()) << text;
}

TEST(InCall, Forms) {
  const auto call = ParseInCall("202 0x7f01 0x89 0x0 0x0 0x0 0xffffffffffffffff 0x7ffe10 0x7f0011\n");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->number, 202);
  EXPECT_EQ(call->arguments[0], 0x7f01u);
  EXPECT_EQ(call->arguments[5], UINT64_MAX);
  EXPECT_EQ(call->stack_pointer, 0x7ffe10u);
  EXPECT_EQ(call->pc, 0x7f0011u);
  const auto none = ParseInCall("-1 0x10 0x20\n");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->number, -1);
  EXPECT_EQ(none->pc, 0x20u);
  EXPECT_TRUE(ParseInCall("running\n")->running);
  for (const char* text : {"", "x", "202", "202 0x1 0x2", "-1 0x1", "202 0 0 0 0 0 0 0"})
    EXPECT_FALSE(ParseInCall(text));
}

TEST(Interrupted, CallsThatAStopShowsInAreLeftAlone) {
  for (const long call : {SYS_futex, SYS_ppoll, SYS_clock_nanosleep, SYS_wait4})
    EXPECT_TRUE(GoesOnByItself(call, false));
  EXPECT_TRUE(GoesOnByItself(SYS_read, false));
  for (const long call : {SYS_epoll_pwait, SYS_semtimedop, SYS_rt_sigtimedwait, SYS_recvfrom, SYS_ioctl, SYS_close})
    EXPECT_FALSE(GoesOnByItself(call, false));
  EXPECT_FALSE(GoesOnByItself(SYS_read, true));
  EXPECT_TRUE(MayBeginAnew(SYS_epoll_pwait));
  // Interrupted they have done their work, or half of it.
  EXPECT_FALSE(MayBeginAnew(SYS_close));
  EXPECT_FALSE(MayBeginAnew(SYS_connect));
  EXPECT_FALSE(MayBeginAnew(SYS_ioctl));
}

TEST(Words, CallsAndBytes) {
  EXPECT_EQ(CallName(SYS_futex), "futex");
  EXPECT_EQ(CallName(SYS_epoll_pwait), "epoll_pwait");
  EXPECT_EQ(CallName(-7), "");
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(std::uint64_t{81} << 30), "81 GiB");
}

TEST(Sockets, Addresses) {
  EXPECT_EQ(AddressText("0100007F:1F90"), "127.0.0.1:8080");
  EXPECT_EQ(AddressText("00000000000000000000000001000000:0050"), "[::1]:80");
  EXPECT_EQ(AddressText(""), "");
  EXPECT_EQ(AddressText("0100007F"), "");
}

TEST(Pressure, Lines) {
  const auto pressure = ParsePressure(
      "some avg10=12.50 avg60=3.00 avg300=0.10 total=123\nfull avg10=2.25 avg60=0.00 avg300=0.00 total=4\n");
  ASSERT_TRUE(pressure);
  EXPECT_DOUBLE_EQ(pressure->some, 12.5);
  EXPECT_DOUBLE_EQ(pressure->full, 2.25);
  EXPECT_FALSE(ParsePressure(""));
}

class CgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "cgroupXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root_;
};

TEST_F(CgroupTest, VersionTwoTightestLimitAround) {
  Write("cgroup.controllers", "cpu memory\n");
  Write("job/memory.current", "9000\n");
  Write("job/memory.max", "10000\n");
  Write("job/rank/memory.current", "4000\n");
  Write("job/rank/memory.max", "max\n");
  Write("job/rank/memory.events", "low 0\noom 3\noom_kill 2\n");
  Write("job/rank/memory.pressure", "some avg10=40.00 avg60=0 avg300=0 total=1\nfull avg10=30.00 avg60=0\n");
  Write("job/rank/cgroup.events", "populated 1\nfrozen 1\n");
  const GroupState state = GroupsOf("0::/job/rank\n", root_);
  EXPECT_EQ(state.limit_bytes, 10000u);
  EXPECT_EQ(state.used_bytes, 9000u);
  EXPECT_EQ(state.memory_group, "/job");
  EXPECT_EQ(state.killed, 2u);
  EXPECT_TRUE(state.frozen);
  ASSERT_TRUE(state.memory);
  EXPECT_DOUBLE_EQ(state.memory->full, 30.0);
}

TEST_F(CgroupTest, VersionOne) {
  Write("memory/job/memory.usage_in_bytes", "500\n");
  Write("memory/job/memory.limit_in_bytes", "1000\n");
  Write("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  Write("memory/memory.usage_in_bytes", "800\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  const GroupState state = GroupsOf("7:cpu,cpuacct:/x\n5:memory:/job\n", root_);
  EXPECT_EQ(state.limit_bytes, 1000u);
  EXPECT_EQ(state.used_bytes, 500u);
  EXPECT_EQ(state.killed, 1u);
  EXPECT_FALSE(state.frozen);
}

TEST_F(CgroupTest, NoneAtAll) {
  const GroupState state = GroupsOf("", root_);
  EXPECT_FALSE(state.limit_bytes);
  EXPECT_FALSE(state.used_bytes);
  EXPECT_EQ(state.killed, 0u);
}

}  // namespace
}  // namespace ncclwatch::stacks
