#include "shim/base/thread.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include <cerrno>
#include <cstddef>

#include "shim/base/keep_errno.h"
#include "shim/base/self_memory.h"
#include "shim/base/unwind_path.h"

namespace ncclwatch::shim {
namespace {

struct Walk {
  const Thread& thread;
  UnwindPath path;
  std::uint64_t caller = 0;  // of the frame that the noted call's wrapper would have, 0: not reached
};
_Unwind_Reason_Code Step(_Unwind_Context* context, void* data) {
  auto* walk = static_cast<Walk*>(data);
  walk->path.Pass(_Unwind_GetCFA(context), _Unwind_GetIP(context));
  if (_Unwind_GetCFA(context) <= walk->thread.frame) return _URC_NO_REASON;
  walk->caller = _Unwind_GetIP(context);
  return _URC_NORMAL_STOP;
}

// Nobody may ever write again over what a call left by longjmp() has left on the stack. Where the frames between here
// and there can be told, they say whether its caller still stands above its place.
bool WasLeft(const Thread& thread, const Entrance& inner) {
  Walk walk{thread, UnwindPath(inner, thread.frame)};
  _Unwind_Backtrace(Step, &walk);
  if (walk.caller == thread.site) walk.path.Keep();
  return walk.caller != 0 && walk.caller != thread.site;
}

// Out of the way of the compiler's checks too: the frame is another function's.
__attribute__((no_sanitize("address", "thread", "undefined"), noinline)) bool ReturnsTo(const std::uint64_t* place,
                                                                                        std::uint64_t site) {
  std::uint64_t there = 0;
  const iovec to{&there, sizeof there};
  const iovec from{const_cast<std::uint64_t*>(place), sizeof there};
  const long copied = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &to, 1, &from, 1, 0);
  if (copied == static_cast<long>(sizeof there)) return there == site;
  if (copied >= 0 || errno == EFAULT) return false;
  // Older containers forbid that call. Nobody unmaps the stack of a call in progress, so that what can be read now can
  // be read a moment later, unless it is a dead stack that another thread is just giving away.
  return CanBeRead(reinterpret_cast<std::uint64_t>(place)) && __atomic_load_n(place, __ATOMIC_RELAXED) == site;
}

}  // namespace

bool StillInCall(const Thread& thread, const Entrance& inner) {
  if (IsKnownUnwindPath(inner, {thread.frame, thread.site})) return true;
  const KeepErrno keep;
  return ReturnsTo(reinterpret_cast<std::uint64_t*>(thread.frame) + 1, thread.site) && !WasLeft(thread, inner);
}

}  // namespace ncclwatch::shim
