// The communicators of the process: entries made before the creating call, bound to their handles after it, settled
// once NCCL says so, and ended.
#pragma once

#include <cstdint>

#include "shim/black_box/box.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim {

// The entry of a handle, or kNoCommunicator for a null handle or a full table. A handle never seen before gets an
// entry of unknown identity.
std::uint32_t Adopt(Box& box, std::uint32_t library, std::uint64_t handle);
inline std::uint32_t Lookup(Box& box, std::uint32_t library, std::uint64_t handle) {
  if (handle == 0) [[unlikely]]
    return format::kNoCommunicator;
  const std::uint32_t index = box.handles.Find(handle);
  if (index != format::kNoCommunicator) [[likely]]
    return index;
  return Adopt(box, library, handle);
}

// Before the creating call: makes the entry (entries), in state kInitializing, and sets call.created, and for a child
// call.index and call.position, the ordinal on its parent.
void BeginCreation(Box& box, Call& call);
// After it, or after the GroupEnd that ran it.
void EndCreation(Box& box, std::uint32_t created, int result);
// The application learned from ncclCommGetAsyncError how `handle` fares.
void AsyncState(Box& box, std::uint64_t handle, int state);

// Before and after ncclCommFinalize, Destroy, Abort, Revoke.
void BeginLifecycle(Box& box, Call& call);
void EndLifecycle(Box& box, const Call& call, int result);

}  // namespace ncclwatch::shim
