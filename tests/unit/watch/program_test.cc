// Programs started from within a host that must not notice.
#include "watchdog/act/program.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/unit/watch/file_text.h"
#include "watchdog/act/stacks.h"

namespace ncclwatch::act {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-program-XXXXXX";
    top_ = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(top_); }
  Program Shell(const std::string& script) const {
    Program program;
    program.arguments = {"/bin/sh", "-c", script};
    program.environment = {"PATH=/usr/bin:/bin"};
    program.output = top_ + "/out";
    return program;
  }
  // A script that stands for the command.
  std::string Command(const std::string& script) const {
    const std::string path = top_ + "/command";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  std::string TakeStacksBy(const std::string& command) const {
    return TakeStacks({.command = command,
                       .directory = descriptors::Directory::Own(top_),
                       .targets = {{4711, 11, 4712}, {4713, 13, 0}},
                       .environment = {"PATH=/usr/bin:/bin", "LD_PRELOAD=/no/such/library.so", "KEPT=yes"}});
  }
  std::string top_;
};

TEST_F(ProgramTest, ItsEndIsSeenAndWhatItSaidIsKept) {
  const Outcome outcome = RunProgram(Shell("echo said; echo and complained >&2; exit 5"));
  EXPECT_EQ(outcome.error, 0);
  EXPECT_TRUE(outcome.in_time);
  ASSERT_TRUE(WIFEXITED(outcome.status));
  EXPECT_EQ(WEXITSTATUS(outcome.status), 5);
  EXPECT_EQ(Content(top_ + "/out"), "said\nand complained\n");
}

TEST_F(ProgramTest, ASignalIsSeen) {
  const Outcome outcome = RunProgram(Shell("kill -SEGV $$"));
  ASSERT_TRUE(WIFSIGNALED(outcome.status));
  EXPECT_EQ(WTERMSIG(outcome.status), SIGSEGV);
  EXPECT_FALSE(WCOREDUMP(outcome.status));
}

TEST_F(ProgramTest, WhatCannotBeStartedIsAnError) {
  Program program = Shell("");
  program.arguments[0] = top_ + "/missing";
  EXPECT_EQ(RunProgram(program).error, ENOENT);
  std::ofstream(top_ + "/missing") << "no program";
  EXPECT_EQ(RunProgram(program).error, EACCES);
}

TEST_F(ProgramTest, AfterItsDeadlineItIsKilled) {
  Program program = Shell("trap '' TERM ALRM; echo $$; while :; do sleep 1; done");
  program.deadline_ms = 300;
  const auto began = Clock::now();
  const Outcome outcome = RunProgram(program);
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(5));
  EXPECT_FALSE(outcome.in_time);
  EXPECT_TRUE(WIFSIGNALED(outcome.status));
  EXPECT_NE(kill(std::stoi(Content(top_ + "/out")), 0), 0);
}

TEST_F(ProgramTest, ItWritesNoCoreAndHasDefaultSignals) {
  Program program = Shell("ulimit -c; grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd | wc -l");
  void (*const before)(int) = signal(SIGUSR1, SIG_IGN);
  RunProgram(program);
  signal(SIGUSR1, before);
  std::istringstream lines(Content(top_ + "/out"));
  std::string core, blocked, ignored, descriptors;
  std::getline(lines, core);
  std::getline(lines, blocked);
  std::getline(lines, ignored);
  std::getline(lines, descriptors);
  EXPECT_EQ(core, "0");
  EXPECT_EQ(blocked, "SigBlk:\t0000000000000000");
  EXPECT_EQ(ignored, "SigIgn:\t0000000000000000");
  EXPECT_EQ(std::stoi(descriptors), 4);  // 0, 1, 2 and the folder that `ls` reads
}

// The launcher kills the leader while the program runs: what it finds is wanted all the more.
TEST_F(ProgramTest, ItOutlivesTheHostAndEndsAllTheSame) {
  Program program = Shell("echo $$ > " + top_ + "/pid; sleep 0.5; touch " + top_ + "/done; exec sleep 100");
  program.deadline_ms = 1000;
  const pid_t host = fork();
  if (host == 0) {
    RunProgram(program);
    _exit(0);
  }
  while (!fs::exists(top_ + "/pid")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(host, SIGKILL);
  int status = 0;
  waitpid(host, &status, 0);
  const auto began = Clock::now();
  while (!fs::exists(top_ + "/done") && Clock::now() - began < std::chrono::seconds(10))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(fs::exists(top_ + "/done"));
  const pid_t pid = std::stoi(Content(top_ + "/pid"));
  while (kill(pid, 0) == 0 && Clock::now() - began < std::chrono::seconds(20))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // An orphan's zombie is somebody else's to reap: it must not run.
  const std::string stat = Content("/proc/" + std::to_string(pid) + "/stat");
  EXPECT_TRUE(stat.empty() || stat.find(") Z ") != std::string::npos) << stat;
}

TEST_F(ProgramTest, TheHostSeesNoChild) {
  const pid_t host = fork();
  if (host == 0) {
    signal(SIGCHLD, [](int) { _exit(40); });
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::thread([this] { RunProgram(Shell("sleep 0.3")); }).detach();
    const auto began = Clock::now();
    while (Clock::now() - began < std::chrono::milliseconds(600)) {
      if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) _exit(41);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    _exit(0);
  }
  int status = 0;
  waitpid(host, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(ProgramTest, StacksAreAskedForByProcessAndThread) {
  EXPECT_EQ(TakeStacksBy(Command("echo \"$@\"; env")), "");
  const std::string said = Content(top_ + "/stacks/program.log");
  EXPECT_EQ(said.substr(0, said.find('\n')),
            "stacks --into " + top_ + "/stacks --started 4711:11 --thread 4711:4712 --started 4713:13 4711 4713");
  EXPECT_EQ(said.find("LD_PRELOAD"), std::string::npos);
  EXPECT_NE(said.find("KEPT=yes"), std::string::npos);
}

TEST_F(ProgramTest, WithoutStacksThereIsAReason) {
  EXPECT_NE(TakeStacksBy("").find("NCCLWATCH_COMMAND"), std::string::npos);
  EXPECT_NE(TakeStacksBy(top_ + "/none").find(top_ + "/none: No such file"), std::string::npos);
  EXPECT_NE(TakeStacksBy(Command("echo one; echo 'cannot attach' >&2; exit 3")).find("status 3: cannot attach"),
            std::string::npos);
  EXPECT_NE(TakeStacksBy(Command("kill -SEGV $$")).find("signal 11"), std::string::npos);
  const auto began = Clock::now();
  EXPECT_NE(TakeStacksBy(Command("exec sleep 100")).find("not done after 3 s"), std::string::npos);
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(8));
}

TEST(Command, IsNamedOrLiesBesideTheLibrary) {
  EXPECT_EQ(FindCommand({"A=b", "NCCLWATCH_COMMAND=/some/where"}), "/some/where");
  const std::string beside = FindCommand({"NCCLWATCH_COMMAND="});
  EXPECT_TRUE(beside.ends_with("/../bin/ncclwatch")) << beside;
  EXPECT_EQ(beside.front(), '/');
}

}  // namespace
}  // namespace ncclwatch::act
