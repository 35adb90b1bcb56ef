#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "tests/unit/watch/file_text.h"
#include "watchdog/act/dump.h"
#include "watchdog/act/end_job.h"
#include "watchdog/act/files.h"
#include "watchdog/act/hook.h"
#include "watchdog/act/in_time.h"
#include "watchdog/act/thread.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::act {
namespace {

namespace fs = std::filesystem;
using descriptors::Directory;

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class Act : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-act-XXXXXX";
    top_ = mkdtemp(name);
  }
  void TearDown() override {
    if (mounted_) umount2((top_ + "/small").c_str(), MNT_DETACH);
    fs::remove_all(top_);
  }
  // Skips (false) where a file system cannot be mounted.
  bool MountSmall(const char* options) {
    fs::create_directories(top_ + "/small");
    mounted_ = geteuid() == 0 && mount("none", (top_ + "/small").c_str(), "tmpfs", 0, options) == 0;
    return mounted_;
  }
  std::string top_;
  bool mounted_ = false;
};

TEST_F(Act, FilesAreReplacedWhole) {
  EXPECT_EQ(WriteFile(Directory::Named(top_), "f", "one"), "");
  EXPECT_EQ(WriteFile(Directory::Named(top_), "f", "two"), "");
  EXPECT_EQ(Content(top_ + "/f"), "two");
  EXPECT_NE(WriteFile(Directory::Named(top_), "missing/f", "x"), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(top_), fs::directory_iterator()), 1);
}

TEST_F(Act, AFullFileSystemIsAReasonAndLeavesTheOldFile) {
  if (!MountSmall("size=64k")) GTEST_SKIP() << "a small file system cannot be mounted here";
  EXPECT_EQ(WriteFile(Directory::Named(top_), "small/f", "old"), "");
  EXPECT_NE(WriteFile(Directory::Named(top_), "small/f", std::string(1 << 20, 'x')), "");
  EXPECT_EQ(Content(top_ + "/small/f"), "old");
}

TEST_F(Act, AReadOnlyFileSystemIsAReason) {
  if (!MountSmall("size=64k") || mount("none", (top_ + "/small").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "") != 0)
    GTEST_SKIP() << "a read-only file system cannot be mounted here";
  EXPECT_NE(WriteFile(Directory::Named(top_), "small/f", "x").find("small/f"), std::string::npos);
}

TEST_F(Act, EvidenceIsSavedAndCopiedOut) {
  static format::Header own = {};
  own.file_bytes = sizeof(own);
  std::ofstream(top_ + "/other.box") << "other";
  std::ofstream(top_ + "/diagnosis.json") << "{}";
  std::ofstream(top_ + "/diagnosis.txt") << "text";
  Dump dump;
  dump.directory = Directory::Own(top_);
  dump.out = top_ + "/durable/job";
  dump.suspects = {{getpid(), 3, rundir::StatOf(getpid())->start_time}, {0x7ffffffe, 4, 1}};
  dump.boxes = {"other.box"};
  dump.own = &own;
  dump.own_name = "own.box";
  std::string complaint;
  dump.complain = [&complaint](const std::string& line) { complaint = line; };
  Save(dump);
  EXPECT_EQ(complaint, "");
  const std::string evidence = "/evidence/rank-3.pid-" + std::to_string(getpid()) + ".txt";
  EXPECT_NE(Content(top_ + evidence).find("State:"), std::string::npos);
  EXPECT_EQ(Content(dump.out + evidence), Content(top_ + evidence));
  EXPECT_EQ(Content(dump.out + "/other.box"), "other");
  EXPECT_EQ(fs::file_size(dump.out + "/own.box"), sizeof(own));
  EXPECT_EQ(Content(dump.out + "/diagnosis.json"), "{}");
}

TEST_F(Act, WhatCannotBeSavedIsSaidOnceAndTheRestIsSaved) {
  std::ofstream(top_ + "/diagnosis.txt") << "text";
  Dump dump;
  dump.directory = Directory::Own(top_);
  dump.out = top_ + "/durable";
  dump.boxes = {"no.box", "neither.box"};
  int complaints = 0;
  dump.complain = [&complaints](const std::string&) { ++complaints; };
  Save(dump);
  EXPECT_EQ(complaints, 1);
  EXPECT_EQ(Content(dump.out + "/diagnosis.txt"), "text");
}

TEST_F(Act, AnotherProcessThatHasTheSuspectsPidIsNotLookedAt) {
  Dump dump;
  dump.directory = Directory::Own(top_);
  dump.suspects = {{getpid(), 3, rundir::StatOf(getpid())->start_time + 1}};
  std::string complaint;
  dump.complain = [&complaint](const std::string& line) { complaint = line; };
  Save(dump);
  EXPECT_NE(complaint.find("another process"), std::string::npos) << complaint;
  EXPECT_TRUE(fs::is_empty(top_ + "/evidence"));
}

TEST_F(Act, LinksInARunDirectoryAreNotFollowed) {
  fs::create_directories(top_ + "/run");
  fs::create_directories(top_ + "/elsewhere");
  fs::create_symlink(top_ + "/elsewhere", top_ + "/run/evidence");
  Dump dump;
  dump.directory = Directory::Own(top_ + "/run");
  dump.suspects = {{getpid(), 3, rundir::StatOf(getpid())->start_time}};
  std::string complaint;
  dump.complain = [&complaint](const std::string& line) { complaint = line; };
  Save(dump);
  EXPECT_NE(complaint.find("evidence"), std::string::npos) << complaint;
  EXPECT_TRUE(fs::is_empty(top_ + "/elsewhere"));
}

TEST_F(Act, ADirectoryPutInThePlaceOfTheRunDirectoryIsNotWrittenTo) {
  fs::create_directories(top_ + "/run");
  Dump dump;
  dump.directory = Directory::Own(top_ + "/run");
  fs::rename(top_ + "/run", top_ + "/moved");
  fs::create_directories(top_ + "/run");
  dump.suspects = {{getpid(), 3, rundir::StatOf(getpid())->start_time}};
  Save(dump);
  EXPECT_TRUE(fs::is_empty(top_ + "/run"));
  EXPECT_FALSE(fs::is_empty(top_ + "/moved/evidence"));
}

TEST_F(Act, NothingIsCopiedWhereOthersCouldReplaceIt) {
  fs::create_directories(top_ + "/run");
  fs::create_directories(top_ + "/shared");
  chmod((top_ + "/shared").c_str(), 0770);
  std::ofstream(top_ + "/run/diagnosis.txt") << "text";
  Dump dump;
  dump.directory = Directory::Own(top_ + "/run");
  dump.out = top_ + "/shared/job";
  std::string complaint;
  dump.complain = [&complaint](const std::string& line) { complaint = line; };
  Save(dump);
  EXPECT_NE(complaint.find("NCCLWATCH_OUT"), std::string::npos) << complaint;
  EXPECT_NE(complaint.find("others may write to it"), std::string::npos) << complaint;
  EXPECT_FALSE(fs::exists(dump.out + "/diagnosis.txt"));
}

TEST_F(Act, HookGetsTheDiagnosisAndTheHostNeverSeesIt) {
  // In a child of its own, so that what the host can wait for is known.
  const pid_t host = fork();
  if (host == 0) {
    signal(SIGCHLD, [](int) { _exit(40); });
    signal(SIGUSR1, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::ofstream(top_ + "/in") << "the diagnosis";
    const int leaked = open("/dev/null", O_RDONLY);
    if (dup2(leaked, 77) < 0) _exit(41);
    std::string command = "cat > " + top_ + "/out; grep Sig /proc/self/status > " + top_ +
                          "/signals; ls /proc/self/fd > " + top_ + "/fds; echo $PPID > " + top_ +
                          "/parent; sleep 0.2; touch " + top_ + "/done";
    if (!StartHook({.command = command,
                    .input = top_ + "/in",
                    .environment = {"PATH=/usr/bin:/bin", "A=b"},
                    .limit_s = 30,
                    .complain = {}}))
      _exit(42);
    const auto began = std::chrono::steady_clock::now();
    while (!fs::exists(top_ + "/done")) {
      if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) _exit(43);
      if (std::chrono::steady_clock::now() - began > std::chrono::seconds(20)) _exit(44);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) _exit(45);
    _exit(0);
  }
  int status = 0;
  waitpid(host, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Content(top_ + "/out"), "the diagnosis");
  EXPECT_NE(Content(top_ + "/signals").find("SigBlk:\t0000000000000000"), std::string::npos);
  EXPECT_NE(Content(top_ + "/signals").find("SigIgn:\t0000000000000000"), std::string::npos);
  EXPECT_EQ(Content(top_ + "/fds").find("77"), std::string::npos);
  EXPECT_NE(Content(top_ + "/parent"), std::to_string(host) + "\n");
}

TEST_F(Act, HookOutlivesAHostThatEnds) {
  const pid_t host = fork();
  if (host == 0) {
    std::ofstream(top_ + "/in") << "x";
    StartHook({.command = "touch " + top_ + "/began; sleep 0.3; touch " + top_ + "/done",
               .input = top_ + "/in",
               .environment = {"PATH=/usr/bin:/bin"},
               .limit_s = 30,
               .complain = {}});
    _exit(Eventually([this] { return fs::exists(top_ + "/began"); }) ? 0 : 1);
  }
  int status = 0;
  waitpid(host, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Eventually([this] { return fs::exists(top_ + "/done"); }));
}

TEST(OwnThreads, AreCountedWhileTheyRunAndNotInAChild) {
  const OwnThreads before = CountOwnThreads();
  const auto wait_for = [](unsigned running) {
    while (CountOwnThreads().running != running) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::atomic<bool> end{false};
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(StartThread("counted", [&end] { end.wait(false); }));
  wait_for(before.running + 2);
  EXPECT_NE(CountOwnThreads().word, before.word);
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(CountOwnThreads().running));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const std::uint64_t running = CountOwnThreads().word;
  end = true;
  end.notify_all();
  wait_for(before.running);
  EXPECT_NE(CountOwnThreads().word, running);
}

TEST(InTime, AQuestionThatIsNeverAnsweredIsLeftBehind) {
  const rundir::Patience patience = InTime(200);
  const auto answer = [&patience](std::function<std::optional<int>()> ask) {
    return rundir::Asked<int>(patience, ask);
  };
  EXPECT_EQ(answer([] { return std::optional<int>(7); }), 7);
  auto end = std::make_shared<std::atomic<bool>>(false);
  EXPECT_EQ(answer([end] {
              end->wait(false);
              return std::optional<int>(8);
            }),
            std::nullopt);
  EXPECT_EQ(answer([] { return std::optional<int>(9); }), std::nullopt) << "nothing is left of the time";
  *end = true;
  end->notify_all();
}

TEST_F(Act, EndingSaysSoInTheBoxAndPassesEveryHandler) {
  auto* own = static_cast<format::Header*>(
      mmap(nullptr, format::kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) {
    std::atexit([] { pause(); });
    EndOwnProcess(own);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 86);
  EXPECT_EQ(own->last_words.written.load(), 1u);
  EXPECT_EQ(own->last_words.exit_status, 86);
  EXPECT_EQ(own->state.load(), static_cast<std::uint32_t>(format::ProcessState::kExiting));
  munmap(own, format::kPage);
}

}  // namespace
}  // namespace ncclwatch::act
