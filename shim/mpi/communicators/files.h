// The files of MPI: each has an entry in the table of communicators, over the ranks that have opened it together. What
// single ranks read and write by themselves is recorded and no more.
#pragma once

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

void EndOpening(Call& call, std::uint32_t made, int result, const MPI_File* file);
// Attaches the call to the file's entry; nothing where it is not known.
void AttachFile(Call& call, MPI_File file);
void EndClosing(Call& call, MPI_File file, int result);

}  // namespace ncclwatch::shim::mpi
