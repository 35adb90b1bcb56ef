// Groups: per thread, nested; the work is done at the end of the outermost one. Every call outside a group is a group
// of its own, as in NCCL.
#ifndef SOFTGPU_NCCL_GROUP_H_
#define SOFTGPU_NCCL_GROUP_H_

#include <functional>

#include "comm.h"
#include "kernel.h"

namespace softgpu {

// Open ncclGroupStart calls of this thread.
int GroupDepth();

void GroupStart();

// With `simulate` nothing is launched.
ncclResult_t GroupEnd(bool simulate = false);

// Remembers an error for the end of the group, where there is one. Returns `result`.
ncclResult_t GroupError(ncclResult_t result);

// Work on a communicator itself (initialise, split, finalize...): done now, or by a thread of its own at the end of the
// group. The job must not touch `comm` after it freed it.
ncclResult_t GroupRun(ncclComm* comm, std::function<ncclResult_t()> job);

// Adds to what this group gives `comm`. Must be inside a group. ncclInvalidArgument if blocking and non-blocking
// communicators meet.
ncclResult_t GroupAdd(ncclComm* comm, CUstream stream, const Collective& collective);
ncclResult_t GroupAdd(ncclComm* comm, CUstream stream, const PointToPoint& transfer);

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_GROUP_H_
