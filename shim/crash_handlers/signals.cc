#include "shim/crash_handlers/signals.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>

#include "core/reader/guard.h"
#include "ncclwatch/format/sample.h"
#include "shim/base/process.h"
#include "shim/crash_handlers/loaded.h"
#include "shim/crash_handlers/sample.h"
#include "shim/exit_report/write.h"

namespace ncclwatch::shim {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

// What the application had: written before ours is installed.
struct sigaction had[std::size(kSignals)];
// Of it: a library's that reports the signal and ends the process, for which it asks to be called once only.
bool reports[std::size(kSignals)];
bool lent[std::size(kSignals)];

// How long a thread whose signal nobody handles waits while another's is being written down: it is about to end the
// process, and the first one's words shall be whole.
constexpr int kPatience_ms = 20;
// A handler of the application's own may end the process after all, as Python's faulthandler does. Virtual machines
// live with such signals: the first few of them leave a sample, which takes a millisecond.
constexpr std::uint64_t kHandledSampled = 8;
constexpr std::uint64_t kOverflowReach = 65536;  // faults this far around the stack pointer are the stack's

std::atomic<std::int32_t> writer{0};  // kernel thread id of whoever writes, 0 nobody

std::size_t PlaceOf(int signal) {
  std::size_t i = 0;
  while (i + 1 < std::size(kSignals) && kSignals[i] != signal) ++i;
  return i;
}

std::int32_t ThreadId() { return static_cast<std::int32_t>(syscall(SYS_gettid)); }

bool IsDefault(const struct sigaction& action) {
  return !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL;
}
bool IsIgnored(const struct sigaction& action) {
  return !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_IGN;
}

// Raised by an instruction, which raises it again when it is executed again. Not so: what somebody sent, breakpoints,
// and memory errors that the kernel only tells about.
bool ComesAgain(int signal, const siginfo_t& info) {
  if (info.si_code <= 0) return false;
  if (signal == SIGBUS) return info.si_code != BUS_MCEERR_AO;
  return signal == SIGSEGV || signal == SIGFPE || signal == SIGILL;
}

// The page under the stack was reached by a push or a call (at the stack pointer), or by a frame too large for it.
bool IsOverflow(int signal, const siginfo_t& info, std::uint64_t stack) {
  if (signal != SIGSEGV || info.si_code <= 0) return false;
  const auto address = reinterpret_cast<std::uint64_t>(info.si_addr);
  return address + kOverflowReach >= stack && address < stack + kRedZone;
}

void NoteCrash(Box& box, int signal) {
  format::LastWords& words = box.header->last_words;
  Put(words.signal, signal);
  Put(words.at_ns, clock::Nanoseconds(CLOCK_MONOTONIC));
  words.written.store(1, std::memory_order_release);
  box.header->state.store(static_cast<std::uint32_t>(format::ProcessState::kCrashing), std::memory_order_release);
}

void WriteSignal(Box& box, int signal, const siginfo_t& info, const ucontext_t& context, bool handled) {
  const std::uint64_t number = box.words->signals_seen.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t stack = StackPointerOf(context);
  const std::uint32_t flags =
      (handled ? format::kSignalHandled : 0u) | (IsOverflow(signal, info, stack) ? format::kSignalOverflow : 0u);
  format::FatalSignal& written = box.words->signals[number % format::kFatalSignals];
  WriteEntry(written, number, [&](format::FatalSignal& entry) {
    Put(entry.fault_address, info.si_code > 0 ? reinterpret_cast<std::uint64_t>(info.si_addr) : 0);
    Put(entry.stack_pointer, stack);
    Put(entry.signal, signal);
    Put(entry.code, info.si_code);
    Put(entry.sender, info.si_code <= 0 ? info.si_pid : 0);
    Put(entry.thread, static_cast<std::uint32_t>(ThreadId()));
    Put(entry.flags, flags);
    char name[sizeof entry.thread_name] = {};
    prctl(PR_GET_NAME, name);
    PutText(entry.thread_name, name);
    WritePlace(box, context, &entry);
  });
  if (handled && number >= kHandledSampled) return DropReplaceableSample(box);
  if (!handled) NoteCrash(box, signal);
  // The words come first: they are whole whatever becomes of the sample.
  if (AppendSample(box, context, written)) Put(written.flags, flags | format::kSignalSampled);
}

// False if this thread is writing already: what it writes has faulted.
bool BecomeWriter(int patience_ms) {
  const std::int32_t self = ThreadId();
  for (int waited_ms = 0;; ++waited_ms) {
    std::int32_t nobody = 0;
    if (writer.compare_exchange_strong(nobody, self, std::memory_order_acq_rel)) return true;
    if (nobody == self || waited_ms == patience_ms) return false;
    const timespec step{0, 1'000'000};
    nanosleep(&step, nullptr);
  }
}

// Many threads of a virtual machine have signals that it handles in the same microseconds: those that come while
// another one is written down are counted, and not written.
void Note(int signal, const siginfo_t& info, const ucontext_t& context, bool handled) {
  Box* const box = BoxToSpeakIn();
  if (!box) return;
  if (!BecomeWriter(handled ? 0 : kPatience_ms)) {
    if (handled) box->words->signals_seen.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  WriteSignal(*box, signal, info, context, handled);
  writer.store(0, std::memory_order_release);
}

// The same signal with the same siginfo for this thread, or for the process. It waits until the handler returns.
void SendAgain(int signal, siginfo_t* info, bool to_process) {
  const long pid = syscall(SYS_getpid);
  const long sent = to_process ? syscall(SYS_rt_sigqueueinfo, pid, signal, info)
                               : syscall(SYS_rt_tgsigqueueinfo, pid, syscall(SYS_gettid), signal, info);
  if (sent == 0) return;
  // A sandbox forbids it, or the kernel lets nobody but the first thread pass on what another process has sent.
  if (to_process)
    syscall(SYS_kill, pid, signal);
  else
    syscall(SYS_tgkill, pid, syscall(SYS_gettid), signal);
}

// As the kernel would have done it if ours were not there.
void GoOn(int signal, siginfo_t* info, void* context, const struct sigaction& before) {
  if (!IsDefault(before)) {
    if (before.sa_flags & SA_SIGINFO)
      before.sa_sigaction(signal, info, context);
    else
      before.sa_handler(signal);
    return;
  }
  struct sigaction at_default {};
  at_default.sa_handler = SIG_DFL;
  sigaction(signal, &at_default, nullptr);
  if (!ComesAgain(signal, *info)) SendAgain(signal, info, false);
}

// The black box, a lease, another one's box: cut short, or on a file system that is full. The host goes on; if it was
// the black box, nothing is recorded any more, and the watchdog will say so.
bool Mended(int signal, const siginfo_t& info) {
  if (signal != SIGBUS || info.si_code <= 0) return false;
  const int number = reader::guard::Mend(reinterpret_cast<std::uintptr_t>(info.si_addr));
  if (number < 0) return false;
  LifePage& page = *life_page.load(std::memory_order_acquire);
  const Box* const box = page.box.load(std::memory_order_acquire);
  if (box && box->guard == number) {
    page.box.store(nullptr, std::memory_order_release);
    page.state.store(LifeState::kPassing, std::memory_order_release);
  }
  return true;
}

// Our own threads leave SIGBUS open for what can be mended. One that somebody sent is not for them.
bool ForAnotherThread(int signal, siginfo_t* info, ucontext_t* context) {
  if (signal != SIGBUS || info->si_code > 0 || info->si_code == SI_TKILL || !reader::guard::IsOurThread()) return false;
  sigaddset(&context->uc_sigmask, SIGBUS);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGBUS);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  SendAgain(signal, info, true);
  return true;
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  const int kept = errno;
  auto* const where = static_cast<ucontext_t*>(context);
  if (Mended(signal, *info) || ForAnotherThread(signal, info, where)) {
    errno = kept;
    return;
  }
  const std::size_t place = PlaceOf(signal);
  const struct sigaction& before = had[place];
  Note(signal, *info, *where, !IsDefault(before) && !reports[place]);
  errno = kept;
  GoOn(signal, info, context, before);
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == OnSignal;
}

void Take(int signal, struct sigaction* before) {
  struct sigaction now {};
  // Ours still: it was never given up, since UCX has a sigaction() of its own that leaves what is there.
  if (sigaction(signal, nullptr, &now) != 0 || IsIgnored(now) || IsOurs(now)) return;
  *before = now;
  struct sigaction ours {};
  ours.sa_sigaction = OnSignal;
  if (IsDefault(now)) {
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&ours.sa_mask);
    // Writing down one signal may meet a black box that was cut short just now.
    sigdelset(&ours.sa_mask, SIGBUS);
    if (signal == SIGBUS) ours.sa_flags |= SA_NODEFER;
  } else {
    // Under exactly the circumstances in which the application wants its own to run.
    ours.sa_flags = now.sa_flags | SA_SIGINFO;
    ours.sa_mask = now.sa_mask;
  }
  struct sigaction replaced {};
  if (sigaction(signal, &ours, &replaced) != 0) return;
  if (signal == SIGBUS) reader::guard::Arm();
  // Another thread of the application may have been quicker: its own handling stays.
  const bool same = replaced.sa_sigaction == now.sa_sigaction && replaced.sa_flags == now.sa_flags;
  if (!same) sigaction(signal, &replaced, nullptr);
}

bool SameHandler(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_sigaction == b.sa_sigaction && (a.sa_flags & SA_SIGINFO) == (b.sa_flags & SA_SIGINFO);
}

}  // namespace

void LendFatalSignals() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction now {};
    // SIGBUS stays: the black box itself may need it at any time.
    if (kSignals[i] == SIGBUS || sigaction(kSignals[i], nullptr, &now) != 0 || !IsOurs(now)) continue;
    lent[i] = sigaction(kSignals[i], &had[i], nullptr) == 0;
  }
}

void TakeFatalSignalsBack() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (!lent[i]) continue;
    lent[i] = false;
    const struct sigaction before = had[i];
    Take(kSignals[i], &had[i]);
    reports[i] = (had[i].sa_flags & SA_RESETHAND) && !SameHandler(before, had[i]);
  }
}

void CatchFatalSignals(Box& box, std::uint32_t stack_bytes) {
  PrepareSample(box, stack_bytes);
  static constinit std::atomic<bool> caught{false};
  if (!caught.exchange(true)) {
    PrepareLoaded();
    for (std::size_t i = 0; i < std::size(kSignals); ++i) Take(kSignals[i], &had[i]);
  }
  box.words->catching.store(1, std::memory_order_relaxed);
}

}  // namespace ncclwatch::shim
