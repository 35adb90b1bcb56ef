#include "watchdog/watch/process/ask_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace ncclwatch::watch {
namespace {

// A fork child inherits handler and memory; this names another process there, and it ends as it would without us.
constinit std::atomic<std::int32_t> owner{0};
constinit std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int32_t>::is_always_lock_free);

// Async-signal-safe calls only. SA_NODEFER lets the signal through when it is raised again.
void OnAsk(int signal) {
  const int kept = errno;
  if (owner.load(std::memory_order_relaxed) == getpid()) {
    asked.store(true, std::memory_order_release);
  } else {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    if (sigaction(signal, &standard, nullptr) == 0) raise(signal);
  }
  errno = kept;
}

bool IsDefaultOrOurs(const struct sigaction& action) {
  return !(action.sa_flags & SA_SIGINFO) && (action.sa_handler == SIG_DFL || action.sa_handler == OnAsk);
}

}  // namespace

void AskSignal::Offer() {
  struct sigaction now {};
  if (sigaction(SIGUSR2, nullptr, &now) != 0 || !IsDefaultOrOurs(now)) return;
  asked.store(false, std::memory_order_relaxed);
  owner.store(getpid(), std::memory_order_relaxed);
  struct sigaction take {};
  take.sa_handler = OnAsk;
  take.sa_flags = SA_NODEFER | SA_ONSTACK | SA_RESTART;
  struct sigaction before {};
  if (sigaction(SIGUSR2, &take, &before) != 0) return;
  // Another thread of the application may have been quicker: its own handling stays.
  if (!IsDefaultOrOurs(before)) sigaction(SIGUSR2, &before, nullptr);
}

bool AskSignal::Taken() {
  return asked.load(std::memory_order_relaxed) && asked.exchange(false, std::memory_order_acquire);
}

void AskSignal::Withdraw() { owner.store(0, std::memory_order_relaxed); }

}  // namespace ncclwatch::watch
