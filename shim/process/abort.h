// Ending the process's communicators on the watchdog's behalf (NCCLWATCH_ON_FAULT=abort), so that the application's
// blocked calls come back and it can end with its own error.
//
// What is guaranteed, and by what:
// - No call of the application begins on a communicator that is being ended: from the first moment on (Box::detours)
//   the wrappers refuse calls instead of passing them on. A call that was on its way past that check is in the ring of
//   records by then, since every processor is made to see the flag before the ring is read (membarrier); it is given
//   the time to come back, or to be stuck inside NCCL for good.
// - Nobody ends a communicator twice: handles are taken under the lock under which the application's own
//   ncclCommDestroy and ncclCommAbort take them away, before they pass them on. What it destroys at that moment is
//   left to it; what was taken before is gone for it: its own destroying and aborting succeeds and does nothing.
// - Only communicators that are ready are ended: not those being made, finalized or revoked.
// - A call that is stuck inside NCCL is woken by ncclCommAbort, which NCCL makes for being called from another thread
//   meanwhile. That the call's last steps do not touch what the abort frees is NCCL's promise, not ours.
#pragma once

#include <nccl.h>

#include <atomic>

#include "shim/black_box/box.h"

namespace ncclwatch::shim {

// In a thread that the host does not need: may take as long as NCCL likes, or for ever. How many were ended. `why`: one
// line, which ncclGetLastError gives from then on.
int AbortCommunicators(const char* why);
const char* WhyEnded();
// What refused calls return: the code that frameworks take for a lost peer. It is younger than some NCCLs.
ncclResult_t CutShort(std::uint32_t library);

inline bool Refusing(const Box& box) { return (box.detours.load(std::memory_order_relaxed) & kRefuses) != 0; }
// Whether AbortCommunicators() has taken this handle, or is about to free what it means.
inline bool EndedByUs(const Box& box, std::uint64_t handle) {
  return handle != 0 && box.ended_by_us.Find(handle) != format::kNoCommunicator;
}

}  // namespace ncclwatch::shim
