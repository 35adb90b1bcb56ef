#include "watchdog/watch/farewell.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "watchdog/watch/clock.h"

namespace ncclwatch::watch {
namespace {

enum Stage : std::uint32_t { kQuiet, kAsked, kAnswered };

// A fork child inherits handler and memory; this names another process there, and it ends at once.
constinit std::atomic<std::int32_t> owner{0};
constinit std::atomic<std::uint32_t> stage{kQuiet};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

void AwaitAnswer() {
  constexpr std::int64_t kPatience_ns = Farewell::kPatience_ms * 1'000'000LL;
  const std::int64_t until_ns = Monotonic() + kPatience_ns;
  while (stage.load(std::memory_order_acquire) == kAsked) {
    const std::int64_t left_ns = until_ns - Monotonic();
    if (left_ns <= 0) return;
    const timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    syscall(SYS_futex, &stage, FUTEX_WAIT_PRIVATE, kAsked, &left, nullptr, 0);
  }
}

// SA_RESETHAND has put the default back and SA_NODEFER lets the signal through: raised again, it ends the process as it
// would have without us. Async-signal-safe calls only.
// Unless the application has installed a handler meanwhile: that one returns, and then this one must leave no trace.
void OnTerminate(int signal) {
  const int kept = errno;
  std::uint32_t quiet = kQuiet;
  if (owner.load(std::memory_order_relaxed) == getpid() && stage.compare_exchange_strong(quiet, kAsked)) AwaitAnswer();
  raise(signal);
  errno = kept;
}

}  // namespace

void Farewell::Offer() {
  const std::int32_t pid = getpid();
  struct sigaction now {};
  if (pid == 1 || sigaction(SIGTERM, nullptr, &now) != 0) return;
  const bool ours = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == OnTerminate;
  if (!ours && ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)) return;
  stage.store(kQuiet, std::memory_order_relaxed);
  owner.store(pid, std::memory_order_relaxed);
  struct sigaction take {};
  take.sa_handler = OnTerminate;
  take.sa_flags = SA_RESETHAND | SA_NODEFER | SA_ONSTACK | SA_RESTART;
  struct sigaction before {};
  if (sigaction(SIGTERM, &take, &before) != 0) return;
  // Another thread of the application may have been quicker: its own handling stays.
  const bool default_or_ours =
      !(before.sa_flags & SA_SIGINFO) && (before.sa_handler == SIG_DFL || before.sa_handler == OnTerminate);
  if (!default_or_ours) sigaction(SIGTERM, &before, nullptr);
}

bool Farewell::Asked() { return stage.load(std::memory_order_acquire) == kAsked; }

void Farewell::Answer() {
  stage.store(kAnswered, std::memory_order_release);
  syscall(SYS_futex, &stage, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

void Farewell::Withdraw() {
  owner.store(0, std::memory_order_relaxed);
  Answer();
}

}  // namespace ncclwatch::watch
