#include "watchdog/watch/farewell.h"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "watchdog/watch/clock.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kPatience_ns = Farewell::kPatience_ms * 1'000'000LL;

struct End {
  int status = 0;
  std::int64_t took_ns = 0;
};

// What becomes of a process that does this.
template <class Body>
End Of(Body body) {
  const std::int64_t from_ns = Monotonic();
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  End end;
  waitpid(child, &end.status, 0);
  end.took_ns = Monotonic() - from_ns;
  return end;
}

void ExpectTerminated(const End& end) {
  EXPECT_TRUE(WIFSIGNALED(end.status));
  EXPECT_EQ(WTERMSIG(end.status), SIGTERM);
}

TEST(Farewell, TheProcessEndsByTheSignalOnceItIsAnswered) {
  const End end = Of([] {
    Farewell::Offer();
    std::thread([] {
      while (!Farewell::Asked()) usleep(100);
      usleep(20'000);
      Farewell::Answer();
    }).detach();
    raise(SIGTERM);
  });
  ExpectTerminated(end);
  EXPECT_GE(end.took_ns, 20'000'000);
}

TEST(Farewell, NobodyAnswers) {
  const End end = Of([] {
    Farewell::Offer();
    raise(SIGTERM);
  });
  ExpectTerminated(end);
  EXPECT_GE(end.took_ns, kPatience_ns);
}

TEST(Farewell, ASecondSignalIsNotPutOff) {
  const End end = Of([] {
    Farewell::Offer();
    std::thread([] {
      while (!Farewell::Asked()) usleep(100);
      kill(getpid(), SIGTERM);
      pause();
    }).detach();
    raise(SIGTERM);
    pause();
  });
  ExpectTerminated(end);
  EXPECT_LT(end.took_ns, kPatience_ns);
}

TEST(Farewell, ForkChildrenAndAWatchdogThatEndedDelayNothing) {
  const End child = Of([] {
    Farewell::Offer();
    if (fork() == 0) raise(SIGTERM);
    int status = 0;
    wait(&status);
    _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM && !Farewell::Asked() ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(child.status), 7);
  EXPECT_LT(child.took_ns, kPatience_ns);
  const End withdrawn = Of([] {
    Farewell::Offer();
    Farewell::Withdraw();
    raise(SIGTERM);
  });
  ExpectTerminated(withdrawn);
  EXPECT_LT(withdrawn.took_ns, kPatience_ns);
}

TEST(Farewell, TheApplicationsOwnHandlingStays) {
  const End own = Of([] {
    std::signal(SIGTERM, [](int) { _exit(9); });
    Farewell::Offer();
    raise(SIGTERM);
  });
  EXPECT_EQ(WEXITSTATUS(own.status), 9);
  const End later = Of([] {
    Farewell::Offer();
    std::signal(SIGTERM, [](int) { _exit(10); });
    raise(SIGTERM);
  });
  EXPECT_EQ(WEXITSTATUS(later.status), 10);
  const End ignored = Of([] {
    std::signal(SIGTERM, SIG_IGN);
    Farewell::Offer();
    raise(SIGTERM);
    _exit(11);
  });
  EXPECT_EQ(WEXITSTATUS(ignored.status), 11);
}

}  // namespace
}  // namespace ncclwatch::watch
