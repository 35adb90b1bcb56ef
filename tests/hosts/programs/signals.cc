// Signal handlers that make calls, and masks and handlers that must stay the host's own.
#include <pthread.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "host.h"

namespace {

std::atomic<int> ticks{0};
ncclComm_t in_handler = nullptr;

void Profile(int) {
  int version = 0;
  ncclGetVersion(&version);
  ncclGetErrorString(ncclSuccess);
  ++ticks;
}

void Handler(int) { host::AllReduce(in_handler, 81); }

}  // namespace

int main() {
  const ncclComm_t world = host::World();
  in_handler = host::Alone();

  std::signal(SIGUSR1, Handler);
  for (int i = 0; i < 10; ++i) {
    raise(SIGUSR1);
    host::AllReduce(world, 82);
  }

  struct sigaction action {};
  action.sa_handler = Profile;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  const itimerval every{{0, 500}, {0, 500}};
  setitimer(ITIMER_PROF, &every, nullptr);
  for (int i = 0; i < 300 || ticks.load() < 20; ++i) {
    int version = 0;
    for (int call = 0; call < 200; ++call) NCCL(ncclGetVersion(&version));
    if (i < 300) host::AllReduce(world, 83);
  }
  const itimerval never{};
  setitimer(ITIMER_PROF, &never, nullptr);

  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) != 0) continue;
    // Taken where they are at their defaults; end_by_term and fatal_* show that they end us as ever. SIGUSR2 asks for
    // evidence.
    if (number == SIGTERM || number == SIGUSR2 || number == SIGSEGV || number == SIGBUS || number == SIGABRT ||
        number == SIGFPE || number == SIGILL || number == SIGTRAP || number == SIGSYS)
      continue;
    const bool mine = number == SIGUSR1 || number == SIGPROF;
    if ((now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) != mine)
      host::Say("a stranger handles signal " + std::to_string(number));
  }
  sigset_t mask;
  CHECK(pthread_sigmask(SIG_BLOCK, nullptr, &mask) == 0);
  for (int number = 1; number < NSIG; ++number) CHECK(sigismember(&mask, number) != 1);
  host::Say("done");
  return 0;
}
