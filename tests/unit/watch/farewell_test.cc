#include "watchdog/watch/process/sigterm_delay.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <thread>

#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kPatience_ns = SigtermDelay::kPatience_ms * 1'000'000LL;

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

TEST(SigtermDelay, TheProcessEndsByTheSignalOnceItIsAnswered) {
  const End end = Of([] {
    SigtermDelay::Offer();
    std::thread([] {
      while (!SigtermDelay::Asked()) usleep(100);
      usleep(20'000);
      SigtermDelay::Answer();
    }).detach();
    raise(SIGTERM);
  });
  ExpectTerminated(end);
  EXPECT_GE(end.took_ns, 20'000'000);
}

TEST(SigtermDelay, NobodyAnswers) {
  const End end = Of([] {
    SigtermDelay::Offer();
    raise(SIGTERM);
  });
  ExpectTerminated(end);
  EXPECT_GE(end.took_ns, kPatience_ns);
}

TEST(SigtermDelay, ASecondSignalIsNotPutOff) {
  const End end = Of([] {
    SigtermDelay::Offer();
    std::thread([] {
      while (!SigtermDelay::Asked()) usleep(100);
      kill(getpid(), SIGTERM);
      pause();
    }).detach();
    raise(SIGTERM);
    pause();
  });
  ExpectTerminated(end);
  EXPECT_LT(end.took_ns, kPatience_ns);
}

TEST(SigtermDelay, ForkChildrenAndAWatchdogThatEndedDelayNothing) {
  const End child = Of([] {
    SigtermDelay::Offer();
    if (fork() == 0) raise(SIGTERM);
    int status = 0;
    wait(&status);
    _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM && !SigtermDelay::Asked() ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(child.status), 7);
  EXPECT_LT(child.took_ns, kPatience_ns);
  const End withdrawn = Of([] {
    SigtermDelay::Offer();
    SigtermDelay::Withdraw();
    raise(SIGTERM);
  });
  ExpectTerminated(withdrawn);
  EXPECT_LT(withdrawn.took_ns, kPatience_ns);
}

// The watchdog's thread of a process, born with everything blocked: at every tick it asks, and takes what is stuck.
void Watch() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([] {
    for (;; usleep(10'000))
      if (SigtermDelay::IsStuck(Monotonic())) SigtermDelay::TakeStuck();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The main thread of such a process waits in the kernel, uninterruptible, for a vfork child that goes after so long.
End WhileStuck(bool blocked, int seconds) {
  return Of([blocked, seconds] {
    SigtermDelay::Offer();
    Watch();
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGTERM);
    if (blocked) pthread_sigmask(SIG_BLOCK, &one, nullptr);
    const pid_t self = getpid();
    const pid_t child = vfork();  // NOLINT: what is tested is how its parent waits
    if (child == 0) {
      const timespec while_it_lives{seconds, 0};
      syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
      syscall(SYS_kill, self, SIGTERM);
      syscall(SYS_nanosleep, &while_it_lives, nullptr);
      syscall(SYS_exit_group, 0);
    }
    waitpid(child, nullptr, 0);
    _exit(12);
  });
}

TEST(SigtermDelay, AThreadThatIsStuckInTheKernelDoesNotPutItOff) { ExpectTerminated(WhileStuck(false, 60)); }

TEST(SigtermDelay, WhereTheApplicationBlocksItItWaits) { EXPECT_EQ(WEXITSTATUS(WhileStuck(true, 1).status), 12); }

TEST(SigtermDelay, TheApplicationsOwnHandlingStays) {
  const End own = Of([] {
    std::signal(SIGTERM, [](int) { _exit(9); });
    SigtermDelay::Offer();
    raise(SIGTERM);
  });
  EXPECT_EQ(WEXITSTATUS(own.status), 9);
  const End later = Of([] {
    SigtermDelay::Offer();
    std::signal(SIGTERM, [](int) { _exit(10); });
    raise(SIGTERM);
  });
  EXPECT_EQ(WEXITSTATUS(later.status), 10);
  const End ignored = Of([] {
    std::signal(SIGTERM, SIG_IGN);
    SigtermDelay::Offer();
    raise(SIGTERM);
    _exit(11);
  });
  EXPECT_EQ(WEXITSTATUS(ignored.status), 11);
}

}  // namespace
}  // namespace ncclwatch::watch
