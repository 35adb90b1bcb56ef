#include "shim/process/exit.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "shim/base/clock.h"
#include "shim/base/export.h"
#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/base/put.h"
#include "shim/black_box/box.h"
#include "shim/crash_handlers/python.h"
#include "shim/exit_report/await_events.h"
#include "shim/process/abort.h"
#include "watchdog/act/end_job.h"
#include "watchdog/rundir/leave.h"

namespace ncclwatch::shim {
namespace {

std::atomic<bool> caught{false};

// The job is being ended (process/abort.h), and its calls fail: who takes no notice of that and ends as if all was
// well would be believed.
bool IsFalseSuccess(int status) {
  const Box* box = CurrentBox();
  return (status & 0xff) == 0 && box && Refusing(*box) && static_cast<std::uint32_t>(syscall(SYS_getpid)) == box->pid;
}

// Not in a child by vfork(), which shares this memory.
void Leave(int status) {
  const Box* box = CurrentBox();
  if ((status & 0xff) == 0 && box && static_cast<std::uint32_t>(syscall(SYS_getpid)) == box->pid) {
    const KeepErrno keep;
    rundir::LeaveIfLast();
  }
}

// Nothing may run after the handlers but the system call: as glibc's own _exit, past any debug hooks.
[[noreturn]] void EndNow(int status) {
  if (IsFalseSuccess(status)) status = act::kEndedByUs;
  AwaitEvents();
  NoteExit(status);
  Leave(status);
  for (;;) syscall(SYS_exit_group, status);
}

[[noreturn]] void EndFrom(std::uint64_t site, int status) {
  if (BeforeEnd) BeforeEnd(site, status);
  EndNow(status);
}

// No handler can change the status: exit() is cut short, after what it does last.
void OnExit(int status, void*) {
  if (IsFalseSuccess(status)) {
    std::fflush(nullptr);
    EndNow(status);
  }
  // Behind a finalized interpreter threads of the host run into what is gone already, and the longer the process stays
  // the likelier: there it was waited before (python.cc).
  if (!PythonIsWatched()) AwaitEvents();
  NoteExit(status);
  Leave(status);
}

}  // namespace

void CatchExits() {
  if (caught.exchange(true)) return;
  on_exit(OnExit, nullptr);
}

void NoteExit(int status, bool hung_up) {
  Box* box = CurrentBox();
  // A vfork child shares this memory, and ends with _exit, but is not the process that the box is about.
  if (!box || static_cast<std::uint32_t>(syscall(SYS_getpid)) != box->pid) return;
  format::LastWords& words = box->header->last_words;
  std::uint32_t running = static_cast<std::uint32_t>(format::ProcessState::kRunning);
  // Twice where exit() ends in _exit(): the second time readers may be looking.
  Put(words.exit_status, status & 0xff);
  if (hung_up) Put(words.signal, SIGHUP);
  Put(words.at_ns, clock::Nanoseconds(CLOCK_MONOTONIC));
  words.written.store(1, std::memory_order_release);
  box->header->state.compare_exchange_strong(running, static_cast<std::uint32_t>(format::ProcessState::kExiting),
                                             std::memory_order_acq_rel);
}

}  // namespace ncclwatch::shim

extern "C" {
NCCLWATCH_EXPORT void _exit(int status) {
  ncclwatch::shim::EndFrom(reinterpret_cast<std::uint64_t>(__builtin_return_address(0)), status);
}
NCCLWATCH_EXPORT void _Exit(int status) noexcept {
  ncclwatch::shim::EndFrom(reinterpret_cast<std::uint64_t>(__builtin_return_address(0)), status);
}
}
