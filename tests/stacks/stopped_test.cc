// What a stop does to the thread that is stopped: here it is done on purpose to threads that the command leaves alone.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>

#include "analyzer/stacks/threads/read_threads.h"

namespace ncclwatch::stacks {
namespace {

// A program that counts the interruptions that it is told of, and says so at its end.
class StuckThreads {
 public:
  explicit StuckThreads(const std::string& words) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      execl(STACKS_STUCK_THREADS, STACKS_STUCK_THREADS, "threads=4", words.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    output_ = fdopen(out[0], "r");
    Line();  // "ready"
  }
  ~StuckThreads() {
    if (input_ >= 0) close(input_);
    if (output_) fclose(output_);
    waitpid(pid_, nullptr, 0);
  }
  StuckThreads(const StuckThreads&) = delete;
  StuckThreads& operator=(const StuckThreads&) = delete;

  int pid() const { return pid_; }
  std::string End() {
    close(input_);
    input_ = -1;
    return Line();
  }

 private:
  std::string Line() {
    std::string line;
    for (int c = 0; (c = fgetc(output_)) != EOF && c != '\n';) line += static_cast<char>(c);
    return line;
  }
  pid_t pid_ = -1;
  int input_ = -1;
  FILE* output_ = nullptr;
};

class StoppedWait : public ::testing::TestWithParam<const char*> {};

TEST_P(StoppedWait, GoesOnAsIfNothingHadBeen) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "only this processor's kernel lets an interruption be taken back";
#endif
  const std::string kind = GetParam();
  StuckThreads program("kinds=" + kind);
  Memory memory(program.pid());
  const Maps maps = Maps::Of(program.pid());
  int stopped = 0;
  for (int i = 0; i < 50; ++i) {
    std::vector<int> tids;
    for (const Thread& thread : LookAtThreads(program.pid()))
      if (thread.name == kind) tids.push_back(thread.tid);
    ASSERT_EQ(tids.size(), 4u);
    for (const Stopped& one :
         ReadStopped(memory, maps, tids, std::chrono::steady_clock::now() + std::chrono::seconds(10))) {
      EXPECT_EQ(one.trouble, "");
      stopped += one.snapshot && one.snapshot->registers.Get(6).has_value();
    }
  }
  EXPECT_EQ(stopped, 200);
  const std::string counts = program.End();
  EXPECT_NE(counts.find("\"" + kind + "\": {\"returned\": 0, \"interrupted\": 0}"), std::string::npos) << counts;
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoppedWait,
                         ::testing::Values("epoll", "recv", "semtimedop", "sigtimedwait", "futex", "poll", "read",
                                           "nanosleep", "condition"),
                         [](const ::testing::TestParamInfo<const char*>& kind) { return std::string(kind.param); });

#if defined(__x86_64__)
TEST(Stopped, ANumberThatLooksLikeAnInterruptionIsNone) {
  const pid_t child = fork();
  if (child == 0) {
    register long looks asm("rax") = -EINTR;
    for (;;) asm volatile("" : "+r"(looks));
  }
  Memory memory(child);
  for (int i = 0; i < 20; ++i) {
    const auto stopped =
        ReadStopped(memory, Maps(), {child}, std::chrono::steady_clock::now() + std::chrono::seconds(10));
    ASSERT_EQ(stopped.size(), 1u);
    EXPECT_EQ(stopped[0].trouble, "");
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}
#endif

TEST(Stopped, ThoseThatAreGoneAreSaid) {
  Memory memory(getpid());
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const auto stopped = ReadStopped(memory, Maps(), {child}, std::chrono::steady_clock::now() + std::chrono::seconds(1));
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_FALSE(stopped[0].snapshot);
  EXPECT_EQ(stopped[0].trouble, "it ended meanwhile");
}

}  // namespace
}  // namespace ncclwatch::stacks
