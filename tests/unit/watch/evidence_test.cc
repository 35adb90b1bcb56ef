#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "watchdog/evidence/boxless_ranks.h"
#include "watchdog/evidence/exit.h"
#include "watchdog/evidence/pidfd.h"
#include "watchdog/evidence/process_state.h"
#include "watchdog/evidence/snapshot_text.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::evidence {
namespace {

using format::Observed;

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

struct Child {
  pid_t pid;
  std::uint64_t start_time;
  int pidfd;
};
Child Make(const std::function<void()>& body) {
  Child child;
  child.pid = fork();
  if (child.pid == 0) {
    body();
    for (;;) pause();
  }
  child.start_time = rundir::StatOf(child.pid)->start_time;
  child.pidfd = OpenPidfd(child.pid);
  return child;
}
void WaitUntilZombie(const Child& child) {
  EXPECT_TRUE(Eventually([&] { return StateOf(child.pid, child.start_time) == Observed::kGone; }));
}

TEST(ProcessText, TellsNoSecretOfTheCommandLine) {
  const Child child = Make([] {
    execl("/bin/sh", "sh", "-c", "kill -STOP $$; :", "name", "--token", "hunter2", "PIN=hunter2", "--lr=1", nullptr);
  });
  ASSERT_TRUE(Eventually([&] { return ProcessText(child.pid, "pin").find("--lr=1") != std::string::npos; }));
  const std::string text = ProcessText(child.pid, "pin");
  EXPECT_NE(text.find("command: sh -c kill -STOP $$; : name --token *** PIN=*** --lr=1\n"), std::string::npos)
      << text.substr(0, 200);
  EXPECT_EQ(text.find("hunter2"), std::string::npos);
  kill(child.pid, SIGKILL);
  waitpid(child.pid, nullptr, 0);
  close(child.pidfd);
}

TEST(Exit, IsReadFromTheZombie) {
  const Child killed = Make([] {});
  kill(killed.pid, SIGKILL);
  WaitUntilZombie(killed);
  const ExitWord word = ExitOf(killed.pid, killed.start_time, -1);
  EXPECT_EQ(word.flags, format::kExitKnown);
  EXPECT_EQ(word.signal, SIGKILL);
  waitpid(killed.pid, nullptr, 0);
  close(killed.pidfd);

  const Child left = Make([] { _exit(7); });
  WaitUntilZombie(left);
  const ExitWord status = ExitOf(left.pid, left.start_time, -1);
  EXPECT_EQ(status.flags, format::kExitKnown);
  EXPECT_EQ(status.signal, 0);
  EXPECT_EQ(status.status, 7);
  waitpid(left.pid, nullptr, 0);
  close(left.pidfd);
}

TEST(Exit, IsReadFromThePidfdAfterItWasReaped) {
  const Child child = Make([] { _exit(9); });
  waitpid(child.pid, nullptr, 0);
  const ExitWord word = ExitOf(child.pid, child.start_time, child.pidfd);
  close(child.pidfd);
  if (word.flags == 0) GTEST_SKIP() << "this kernel says nothing about reaped processes (6.15 and later do)";
  EXPECT_EQ(word.status, 9);
  EXPECT_EQ(word.signal, 0);
}

TEST(Exit, OfAnotherProcessWithTheSamePidIsNotTaken) {
  const Child child = Make([] { _exit(9); });
  WaitUntilZombie(child);
  EXPECT_EQ(ExitOf(child.pid, child.start_time + 1, -1).flags, 0u);
  waitpid(child.pid, nullptr, 0);
  close(child.pidfd);
}

TEST(MemoryKills, AGroupWithoutKillsBlamesNobody) {
  MemoryKills kills;
  EXPECT_FALSE(kills.TakeKill(kills.Follow(getpid())));
}

// A control group's file, as it counts kills.
class Group {
 public:
  Group() { close(mkstemp(path_)); }
  ~Group() { unlink(path_); }
  void Count(int kills) { std::ofstream(path_) << "low 0\noom_kill " << kills << "\n"; }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/ncclwatch-kills-XXXXXX";
};

TEST(MemoryKills, EachIsGivenToOneDeath) {
  Group group;
  group.Count(3);
  MemoryKills kills;
  kills.FollowGroup(group.path());
  EXPECT_FALSE(kills.TakeKill(group.path()));
  group.Count(4);
  EXPECT_TRUE(kills.TakeKill(group.path()));
  EXPECT_FALSE(kills.TakeKill(group.path()));
}

TEST(MemoryKills, OneOfAStrangerIsForgotten) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  Group group;
  group.Count(3);
  MemoryKills kills;
  kills.FollowGroup(group.path());
  kills.Refresh(1 * kSecond);
  group.Count(4);
  for (int now = 2; now < 25; ++now) kills.Refresh(now * kSecond);
  EXPECT_FALSE(kills.TakeKill(group.path()));
  group.Count(5);
  kills.Refresh(25 * kSecond);
  EXPECT_TRUE(kills.TakeKill(group.path()));
}

TEST(MemoryKills, WhoFollowedForLongerKnowsBetter) {
  Group group;
  group.Count(3);
  MemoryKills follower, leader;
  follower.FollowGroup(group.path());
  group.Count(4);  // the leader's own death
  leader.Learn(follower);
  leader.FollowGroup(group.path());
  EXPECT_TRUE(leader.TakeKill(group.path()));
}

TEST(State, StoppedTracedAndRunning) {
  const Child child = Make([] {});
  EXPECT_EQ(StateOf(child.pid, child.start_time), Observed::kRunning);
  EXPECT_EQ(StateOf(child.pid, child.start_time + 1), Observed::kGone);
  kill(child.pid, SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return StateOf(child.pid, child.start_time) == Observed::kStopped; }));
  kill(child.pid, SIGCONT);
  EXPECT_TRUE(Eventually([&] { return StateOf(child.pid, child.start_time) == Observed::kRunning; }));
  if (ptrace(PTRACE_ATTACH, child.pid, nullptr, nullptr) == 0) {
    waitpid(child.pid, nullptr, __WALL);
    EXPECT_EQ(StateOf(child.pid, child.start_time), Observed::kTraced);
    ptrace(PTRACE_DETACH, child.pid, nullptr, nullptr);
  }
  kill(child.pid, SIGKILL);
  waitpid(child.pid, nullptr, 0);
  close(child.pidfd);
}

// Starts `script` in a shell; the pids of the sleeping ranks below it are found by their environment.
TEST(BoxlessRanks, IsFoundByItsRankAndNotItsWrapperOrAStranger) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    unsetenv("RANK");
    execl("/bin/sh", "sh", "-c",
          "export WORLD_SIZE=3 MASTER_ADDR=here MASTER_PORT=4321;"
          "RANK=0 sleep 100 & RANK=1 sh -c 'sleep 100; true' & RANK=2 sleep 100 &"
          "MASTER_PORT=1 RANK=1 sleep 100 & wait",
          nullptr);
    _exit(127);
  }
  // The one who looks must be a rank of the same launcher: a child of ours is not, so its identity is what counts.
  format::Identity own = {};
  own.world_size = 3;
  own.master_port = 4321;
  snprintf(own.master_address, sizeof(own.master_address), "here");
  std::vector<std::int32_t> pids;
  EXPECT_TRUE(Eventually([&] {
    const std::string text =
        rundir::ReadSmall("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children")
            .value_or("");
    pids.clear();
    for (const char* at = text.c_str(); *at;) {
      char* end = nullptr;
      const long pid = strtol(at, &end, 10);
      if (end == at) break;
      pids.push_back(static_cast<std::int32_t>(pid));
      at = end;
      while (*at == ' ') ++at;
    }
    return pids.size() == 4;
  }));
  std::vector<BoxlessRank> found;
  EXPECT_TRUE(Eventually([&] {
    found = FindBoxlessRanksOf(own, {launcher, rundir::StatOf(launcher)->start_time}, {0});
    return found.size() == 2 && found[0].rank == 1 &&
           rundir::ReadSmall("/proc/" + std::to_string(found[0].pid) + "/comm") == "sleep\n";
  }));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].rank, 2);
  EXPECT_EQ(found[1].pid, pids[2]);
  kill(found[0].pid, SIGKILL);
  for (const std::int32_t pid : pids) kill(pid, SIGKILL);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
}

}  // namespace
}  // namespace ncclwatch::evidence
