// The user's command on a verdict: what it gets, and when it is ended.
#include "watchdog/act/hook.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "tests/unit/watch/file_text.h"
#include "watchdog/act/program.h"

namespace ncclwatch::act {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

template <typename Condition>
bool Eventually(Condition condition) {
  for (const auto end = Clock::now() + std::chrono::seconds(20); Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

// Gone, or a zombie that is somebody else's to reap.
bool Ended(const std::string& pid) {
  const std::string stat = Content("/proc/" + pid.substr(0, pid.find('\n')) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

class HookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-hook-XXXXXX";
    top_ = mkdtemp(name);
    std::ofstream(top_ + "/input") << "the diagnosis\n";
  }
  void TearDown() override { fs::remove_all(top_); }
  Hook Of(const std::string& command, double limit_s = 30) {
    Hook hook;
    hook.command = command;
    hook.input = top_ + "/input";
    hook.environment = {"PATH=/usr/bin:/bin", "TOP=" + top_};
    hook.limit_s = limit_s;
    hook.complain = [said = said_](const std::string& line) {
      const std::lock_guard lock(said->mutex);
      said->text += line + "\n";
    };
    return hook;
  }
  std::string Said() const {
    const std::lock_guard lock(said_->mutex);
    return said_->text;
  }
  struct Words {
    std::mutex mutex;
    std::string text;
  };
  std::shared_ptr<Words> said_ = std::make_shared<Words>();
  std::string top_;
};

TEST_F(HookTest, GetsTheDiagnosisAndACleanEnvironment) {
  Hook hook = Of("cat > $TOP/got; env > $TOP/env; touch $TOP/done");
  for (const char* more :
       {"LD_PRELOAD=/no/such.so", "LD_AUDIT=/no/such.so", "LD_LIBRARY_PATH=/hosts", "GLIBC_TUNABLES=x=y",
        "NCCLWATCH_TOKEN=hunter2", "NCCLWATCH_TOKEN_FILE=/hunter2", "NCCLWATCH_EXCHANGE=redis://me:hunter2@h:1",
        "SLURM_JOB_ID=7", "LANG=C", "TZ=UTC", "NCCLWATCH_DIR=/run", "MY_WEBHOOK=http://h"})
    hook.environment.push_back(more);
  ASSERT_TRUE(StartHook(std::move(hook)));
  ASSERT_TRUE(Eventually([&] { return fs::exists(top_ + "/done"); }));
  EXPECT_EQ(Content(top_ + "/got"), "the diagnosis\n");
  const std::string environment = Content(top_ + "/env");
  for (const char* out : {"LD_", "GLIBC_TUNABLES", "NCCLWATCH_TOKEN", "hunter2"})
    EXPECT_EQ(environment.find(out), std::string::npos) << out << " in\n" << environment;
  for (const char* in : {"PATH=", "SLURM_JOB_ID=7", "LANG=C", "TZ=UTC", "NCCLWATCH_DIR=/run", "MY_WEBHOOK=http://h"})
    EXPECT_NE(environment.find(in), std::string::npos) << in;
}

TEST_F(HookTest, IsEndedWithItsChildrenAtTheLimit) {
  const auto began = Clock::now();
  ASSERT_TRUE(StartHook(Of("sleep 100 & echo $! > $TOP/child; echo $$ > $TOP/self; sleep 100", 0.5)));
  ASSERT_TRUE(Eventually([&] { return !Said().empty(); }));
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(10));
  EXPECT_NE(Said().find("NCCLWATCH_HOOK was ended after 0.500 s"), std::string::npos) << Said();
  EXPECT_TRUE(Eventually([&] { return Ended(Content(top_ + "/self")) && Ended(Content(top_ + "/child")); }));
}

TEST_F(HookTest, SaysHowItFailed) {
  ASSERT_TRUE(StartHook(Of("exit 3")));
  ASSERT_TRUE(Eventually([&] { return !Said().empty(); }));
  EXPECT_EQ(Said(), "NCCLWATCH_HOOK ended with status 3\n");
}

// A launcher kills the host as soon as the first rank is gone.
TEST_F(HookTest, TheLimitHoldsWithoutTheHostToo) {
  if (HookWords("x", 1).front() == "/bin/sh") GTEST_SKIP() << "no timeout(1)";
  const pid_t host = fork();
  if (host == 0) {
    StartHook(Of("sleep 100 & echo $! > $TOP/child; echo $$ > $TOP/self; wait", 1));
    pause();
  }
  ASSERT_TRUE(Eventually([&] { return !Content(top_ + "/self").empty(); }));
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  EXPECT_FALSE(Ended(Content(top_ + "/self")));
  EXPECT_TRUE(Eventually([&] { return Ended(Content(top_ + "/self")) && Ended(Content(top_ + "/child")); }));
}

// Where there is no timeout(1).
TEST_F(HookTest, AWholeGroupIsAskedThenKilled) {
  Program program;
  program.arguments = {
      "/bin/sh", "-c",
      "trap 'touch " + top_ + "/asked' TERM; sleep 100 & echo $! > " + top_ + "/child; while :; do wait; done"};
  program.environment = {"PATH=/usr/bin:/bin"};
  program.deadline_ms = 300;
  program.grace_ms = 500;
  const Outcome outcome = RunProgram(program);
  EXPECT_FALSE(outcome.in_time);
  EXPECT_TRUE(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGKILL);
  EXPECT_TRUE(fs::exists(top_ + "/asked"));
  EXPECT_TRUE(Eventually([&] { return Ended(Content(top_ + "/child")); }));
}

}  // namespace
}  // namespace ncclwatch::act
