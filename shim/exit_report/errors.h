// Errors that NCCL returns, or tells of a communicator when asked: kept with NCCL's own words about them.
#pragma once

#include <cstdint>

#include "shim/base/nccl_compat.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim {

inline bool IsError(int result) { return result != ncclSuccess && result != ncclInProgress; }

// Right after the call, in its thread. A failed ncclMemAlloc is a failed allocation; what ncclCommAbort and
// ncclCommDestroy return is nobody's first error.
void NoteError(Box& box, const Call& call, int result);
// Told by ncclCommGetAsyncError of a communicator; noted once for each.
void NoteAsynchronousError(Box& box, std::uint64_t communicator, int result);

}  // namespace ncclwatch::shim
