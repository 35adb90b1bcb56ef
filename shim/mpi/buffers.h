// NCCLWATCH_MPI_CHECKS=buffers: whether what is sent was changed before its request was completed. Looks at the bytes
// of predefined types alone, twice for each send with a request; receives cannot be told from what MPI itself writes.
#pragma once

#include <cstdint>

#include "shim/mpi/abi.h"
#include "shim/mpi/call.h"

namespace ncclwatch::shim::mpi {

// After the call that began the send in `call.slot`.
void WatchBuffer(const Call& call);
// It is complete, as the call `ends` learns.
void CheckBufferOf(Call& ends, std::uint64_t slot);

}  // namespace ncclwatch::shim::mpi
