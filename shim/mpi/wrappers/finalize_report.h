// What a process leaves behind at MPI_Finalize.
#pragma once

#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

// In MPI_Finalize, which may die of it: what the process never completed or freed. And after it: what its callbacks may
// have made untrue.
void ReportLeft(Call& finalize);
void TakeBackUncertain(Box& box);

}  // namespace ncclwatch::shim::mpi
