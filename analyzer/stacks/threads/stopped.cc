#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "analyzer/stacks/threads/snapshot.h"
#include "analyzer/stacks/unwind/processor.h"

namespace ncclwatch::stacks {
namespace {

// A thread stops at its next interrupt or way out of the kernel: within microseconds, or when it gets a processor again
// where there are more threads than processors. One that does not is in the kernel for longer.
constexpr std::chrono::milliseconds kPatience(250);
constexpr std::chrono::microseconds kPoll(20);
constexpr int kEventStop = 128;  // PTRACE_EVENT_STOP: glibc's <sys/ptrace.h> and <linux/ptrace.h> exclude one another

// The registers and the stack of a thread that is stopped; it goes on afterwards.
void CopyAndRelease(int status, const Memory& memory, const Maps& maps, Stopped* stopped) {
  if (!WIFSTOPPED(status)) {
    stopped->trouble = "it ended meanwhile";
    return;
  }
  Snapshot snapshot;
  const bool read = processor::ReadRegisters(stopped->tid, &snapshot.registers);
  if (read) CopyStack(memory, maps, snapshot.registers.Get(processor::kStackPointer).value_or(0), &snapshot);
  // Besides our own stop it may be one for a signal that is on its way to the thread: that signal is handed on.
  const bool ours = status >> 16 == kEventStop;
  if (ours && read && !processor::ForgiveInterruption(stopped->tid))
    stopped->trouble = "the stop interrupted its system call (EINTR)";
  ptrace(PTRACE_DETACH, stopped->tid, nullptr, ours ? 0L : static_cast<long>(WSTOPSIG(status)));
  if (read)
    stopped->snapshot = std::move(snapshot);
  else
    stopped->trouble = "it ended meanwhile";
}

bool AskToStop(Stopped* stopped) {
  if (ptrace(PTRACE_SEIZE, stopped->tid, nullptr, 0L) == 0 && ptrace(PTRACE_INTERRUPT, stopped->tid, nullptr, 0L) == 0)
    return true;
  stopped->trouble =
      errno == ESRCH ? "it ended meanwhile" : std::string("it cannot be stopped: ") + std::strerror(errno);
  return false;
}

// Each is let go on as soon as it has been seen to stop.
void AwaitAll(const Memory& memory, const Maps& maps, std::vector<Stopped*> waiting, Moment deadline) {
  for (;;) {
    std::erase_if(waiting, [&](Stopped* stopped) {
      int status = 0;
      const pid_t got = waitpid(stopped->tid, &status, __WALL | WNOHANG);
      if (got == 0 || (got < 0 && errno == EINTR)) return false;
      CopyAndRelease(got > 0 ? status : 0, memory, maps, stopped);
      return true;
    });
    if (waiting.empty()) return;
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kPoll);
  }
  for (Stopped* stopped : waiting) stopped->trouble = "it did not stop: it is in the kernel, or gets no processor";
}

}  // namespace

std::vector<Stopped> ReadStopped(const Memory& memory, const Maps& maps, const std::vector<int>& tids,
                                 Moment deadline) {
  std::vector<Stopped> all;
  for (const int tid : tids) all.push_back({tid, std::nullopt, ""});
  // The thread that traces, not the process, owns what it traces: when it ends the kernel lets everything go on. What
  // did not stop in time, and so cannot be detached, is let go of in this way.
  std::thread tracer([&] {
    std::vector<Stopped*> waiting;
    for (Stopped& stopped : all)
      if (AskToStop(&stopped)) waiting.push_back(&stopped);
    AwaitAll(memory, maps, std::move(waiting), std::min(deadline, std::chrono::steady_clock::now() + kPatience));
  });
  tracer.join();
  return all;
}

}  // namespace ncclwatch::stacks
