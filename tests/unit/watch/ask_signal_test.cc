#include "watchdog/watch/process/ask_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace ncclwatch::watch {
namespace {

// What becomes of a process that does this.
template <class Body>
int StatusOf(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void ExpectEndedBySignal(int status) {
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGUSR2);
}

TEST(AskSignal, IsTakenAsOftenAsItComes) {
  EXPECT_EQ(StatusOf([] {
              AskSignal::Offer();
              if (AskSignal::Taken()) _exit(1);
              raise(SIGUSR2);
              if (!AskSignal::Taken() || AskSignal::Taken()) _exit(2);
              raise(SIGUSR2);
              raise(SIGUSR2);
              if (!AskSignal::Taken() || AskSignal::Taken()) _exit(3);
            }),
            0);
}

TEST(AskSignal, TheApplicationsOwnHandlingStays) {
  for (void (*own)(int) : {static_cast<void (*)(int)>([](int) { _exit(40); }), SIG_IGN}) {
    const int status = StatusOf([own] {
      signal(SIGUSR2, own);
      AskSignal::Offer();
      struct sigaction now {};
      sigaction(SIGUSR2, nullptr, &now);
      if (now.sa_handler != own) _exit(1);
      raise(SIGUSR2);
      _exit(AskSignal::Taken() ? 2 : 41);
    });
    EXPECT_EQ(WEXITSTATUS(status), own == SIG_IGN ? 41 : 40);
  }
}

TEST(AskSignal, WhatTheApplicationInstallsLaterReplacesIt) {
  EXPECT_EQ(WEXITSTATUS(StatusOf([] {
              AskSignal::Offer();
              signal(SIGUSR2, [](int) { _exit(42); });
              raise(SIGUSR2);
            })),
            42);
  ExpectEndedBySignal(StatusOf([] {
    AskSignal::Offer();
    signal(SIGUSR2, SIG_DFL);
    raise(SIGUSR2);
  }));
}

TEST(AskSignal, AForkChildEndsByItAsEver) {
  ExpectEndedBySignal(StatusOf([] {
    AskSignal::Offer();
    const int status = StatusOf([] { raise(SIGUSR2); });
    signal(SIGUSR2, SIG_DFL);
    if (WIFSIGNALED(status)) raise(WTERMSIG(status));
  }));
}

TEST(AskSignal, WithoutAWatchdogItMeansWhatItMeant) {
  ExpectEndedBySignal(StatusOf([] {
    AskSignal::Offer();
    AskSignal::Withdraw();
    raise(SIGUSR2);
  }));
}

TEST(AskSignal, ErrnoIsKept) {
  EXPECT_EQ(StatusOf([] {
              AskSignal::Offer();
              errno = EDOM;
              raise(SIGUSR2);
              if (errno != EDOM) _exit(1);
            }),
            0);
}

}  // namespace
}  // namespace ncclwatch::watch
