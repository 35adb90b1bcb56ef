// In which order processes end, as `ncclwatch run` learns it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/run/file_close_watcher.h"
#include "analyzer/run/running_normally.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

class Ends : public ::testing::Test {
 protected:
  Ends() {
    char name[] = "/tmp/ncclwatch-ends-XXXXXX";
    place_ = mkdtemp(name);
  }
  ~Ends() override { std::filesystem::remove_all(place_); }

  // As a rank: a launcher's socket at a low number, the black box, opened before it, at a high one.
  struct Child {
    pid_t pid = 0;
    int socket = -1;
    std::string box;
  };
  Child Start(int number) {
    Child child;
    child.box = place_ + "/" + std::to_string(number);
    int ends[2], made[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(made, O_CLOEXEC), 0);
    child.pid = fork();
    if (child.pid == 0) {
      const int box = open(child.box.c_str(), O_RDWR | O_CREAT, 0600);
      if (fcntl(box, F_DUPFD, 512) < 0 || close(box) != 0 || close(ends[0]) != 0) _exit(1);
      if (write(made[1], "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte;
    EXPECT_EQ(read(made[0], &byte, 1), 1);
    close(made[0]);
    close(made[1]);
    close(ends[1]);
    child.socket = ends[0];
    return child;
  }
  void Reap(const Child& child) {
    waitpid(child.pid, nullptr, 0);
    close(child.socket);
  }
  static void WaitForEnd(int socket) {
    pollfd one{socket, POLLIN, 0};
    EXPECT_EQ(poll(&one, 1, 60'000), 1);
  }

  std::string place_;
};

// What the certainty of a first death rests on: once the launcher can know, the black box has been closed.
TEST_F(Ends, ABlackBoxIsClosedBeforeTheLaunchersSocket) {
  for (int run = 0; run < 50; ++run) {
    FileCloseWatcher closings;
    closings.Watch(place_);
    const Child first = Start(2 * run), second = Start(2 * run + 1);
    const int first_one = closings.Follow(first.box), second_one = closings.Follow(second.box);
    ASSERT_GE(first_one, 0);
    kill(first.pid, SIGKILL);
    WaitForEnd(first.socket);
    EXPECT_EQ(closings.Take(), std::vector<int>{first_one});
    kill(second.pid, SIGKILL);
    WaitForEnd(second.socket);
    EXPECT_EQ(closings.Take(), std::vector<int>{second_one});
    Reap(second);
    Reap(first);
    EXPECT_FALSE(closings.lost());
  }
}

TEST_F(Ends, ReadersCloseNothing) {
  FileCloseWatcher closings;
  closings.Watch(place_);
  const Child child = Start(0);
  closings.Follow(child.box);
  close(open(child.box.c_str(), O_RDONLY));
  EXPECT_TRUE(closings.Take().empty());
  kill(child.pid, SIGKILL);
  Reap(child);
}

TEST_F(Ends, WhatIsUnderASignalIsNotUnharmed) {
  const Child child = Start(0);
  const std::uint64_t start = rundir::StatOf(child.pid)->start_time;
  EXPECT_TRUE(IsUnharmed(child.pid, start));
  EXPECT_FALSE(IsUnharmed(child.pid, start + 1));
  kill(child.pid, SIGKILL);
  EXPECT_FALSE(IsUnharmed(child.pid, start));
  Reap(child);
  EXPECT_FALSE(IsUnharmed(child.pid, start));
}

std::string Stat(const std::string& state, const std::string& flags, const std::string& pending,
                 const std::string& code) {
  std::string text = "77 (a) b) " + state + " 1 1 1 0 -1 " + flags + " 1 2 3 4 5 6 7 8 20 0 1 0 4711 100 200 300";
  text += " 1 2 3 4 5 " + pending;
  for (int field = 32; field < 52; ++field) text += " 0";
  return text + " " + code + "\n";
}

TEST(Unharmed, IsReadOffAStat) {
  EXPECT_TRUE(TellsOfUnharmed(Stat("S", "4194304", "0", "0"), 4711));
  EXPECT_TRUE(TellsOfUnharmed(Stat("T", "4194304", "1", "0"), 4711));
  EXPECT_FALSE(TellsOfUnharmed(Stat("Z", "4194304", "0", "0"), 4711));
  EXPECT_FALSE(TellsOfUnharmed(Stat("R", "4194308", "0", "0"), 4711));
  EXPECT_FALSE(TellsOfUnharmed(Stat("S", "4194304", "256", "0"), 4711));
  EXPECT_FALSE(TellsOfUnharmed(Stat("S", "4194304", "0", "9"), 4711));
  EXPECT_FALSE(TellsOfUnharmed(Stat("S", "4194304", "0", "0"), 4712));
  for (const char* broken : {"", "77", "77 (a", "77 (a) S", "77 (a) S 1 2 3"})
    EXPECT_FALSE(TellsOfUnharmed(broken, 4711)) << broken;
}

}  // namespace
}  // namespace ncclwatch::analyzer
