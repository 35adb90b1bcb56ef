// The buffer that MPI_Bsend copies messages into: the program attaches one to the process and takes it back.
#pragma once

#include <cstdint>

#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

// Before the call that attaches one.
void CheckAttach(Call& call);
// It has succeeded.
void NoteAttached(const void* buffer, std::int64_t bytes);
void NoteDetached();

// Of a buffered send that has been described: a buffer that is smaller than its message cannot hold it.
void CheckRoom(Call& call);

}  // namespace ncclwatch::shim::mpi
