// NCCLWATCH_MPI_CHECKS=buffers: what the program itself changes in its memory of a window between two fences, found by
// a copy. Told beside the second fence's record (format/stores.h); with what other ranks' records say it tells whether
// somebody has got what was being changed. Only of memory that is one window's and this process's alone.
#pragma once

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

// After a fence that lets accesses follow.
void KeepMemory(const Call& fence, MPI_Win window);
// Before the next one is recorded.
void TellStores(Call& fence, MPI_Win window);
// Before the window is freed.
void ForgetMemory(MPI_Win window);

}  // namespace ncclwatch::shim::mpi
