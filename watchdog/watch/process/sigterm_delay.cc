#include "watchdog/watch/process/sigterm_delay.h"

#include <dirent.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>

#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/process.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

// A thread that can take the signal does so within microseconds, and waits of a healthy disk are shorter too.
constexpr std::int64_t kStuckAfter_ns = 300'000'000;

enum Stage : std::uint32_t { kQuiet, kAsked, kAnswered };

// A fork child inherits handler and memory; this names another process there, and it ends at once.
constinit std::atomic<std::int32_t> delay_owner{0};
constinit std::atomic<std::uint32_t> stage{kQuiet};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

void AwaitAnswer() {
  constexpr std::int64_t kPatience_ns = SigtermDelay::kPatience_ms * 1'000'000LL;
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
  if (delay_owner.load(std::memory_order_relaxed) == getpid() && stage.compare_exchange_strong(quiet, kAsked))
    AwaitAnswer();
  raise(signal);
  errno = kept;
}

bool IsOurs(const struct sigaction& action) {
  return !(action.sa_flags & SA_SIGINFO) && action.sa_handler == OnTerminate;
}

bool WaitsForTheProcess() {
  sigset_t pending;  // for this thread, which blocks all signals, or for the process
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

// An uninterruptible thread that does not block the signal: the kernel has chosen it, or would have.
bool IsChosenAndStuck(const std::string& task) {
  const std::string status = rundir::ReadSmall(task + "/status", 4096).value_or("");
  const std::size_t blocked = status.find("\nSigBlk:");
  if (blocked == std::string::npos || status.find("\nState:\tD") == std::string::npos) return false;
  return (std::strtoull(status.c_str() + blocked + 8, nullptr, 16) >> (SIGTERM - 1) & 1) == 0;
}

bool SomeThreadIsStuck() {
  constexpr int kMostThreads = 1024;
  DIR* const tasks = descriptors::OpenDirectory("/proc/self/task");
  if (!tasks) return false;
  bool stuck = false;
  int left = kMostThreads;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    if (left-- == 0 || (stuck = IsChosenAndStuck(std::string("/proc/self/task/") + entry->d_name))) break;
  }
  closedir(tasks);
  return stuck;
}

}  // namespace

void SigtermDelay::Offer() {
  const std::int32_t pid = getpid();
  struct sigaction now {};
  if (pid == 1 || sigaction(SIGTERM, nullptr, &now) != 0) return;
  if (!IsOurs(now) && ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)) return;
  stage.store(kQuiet, std::memory_order_relaxed);
  delay_owner.store(pid, std::memory_order_relaxed);
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

bool SigtermDelay::Asked() { return stage.load(std::memory_order_acquire) == kAsked; }

void SigtermDelay::Answer() {
  stage.store(kAnswered, std::memory_order_release);
  syscall(SYS_futex, &stage, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

bool SigtermDelay::IsStuck(std::int64_t now_ns) {
  static constinit std::int64_t since_ns = 0;  // of the watchdog's thread alone
  if (!WaitsForTheProcess()) {
    since_ns = 0;
    return false;
  }
  if (since_ns == 0) since_ns = now_ns;
  if (now_ns - since_ns < kStuckAfter_ns || delay_owner.load(std::memory_order_relaxed) != getpid()) return false;
  struct sigaction action {};
  return sigaction(SIGTERM, nullptr, &action) == 0 && IsOurs(action) && SomeThreadIsStuck();
}

// Not blocked for a moment, the signal comes to this thread, and its handler finds that nobody needs to be waited for.
void SigtermDelay::TakeStuck() {
  stage.store(kAnswered, std::memory_order_release);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  // Somebody else has taken it in the last instant, and ends the process now.
}

void SigtermDelay::Withdraw() {
  delay_owner.store(0, std::memory_order_relaxed);
  Answer();
}

}  // namespace ncclwatch::watch
