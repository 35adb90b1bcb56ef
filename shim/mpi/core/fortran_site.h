// From which line of a Fortran program a call comes. Open MPI's Fortran functions call PMPI_*, so that the return
// address lies in MPI's own code: the application's is some frames above it.
#pragma once

#include <cstdint>

#include "shim/base/unwind_path.h"

namespace ncclwatch::shim::mpi {

// The application's return address, where the frames between can be told; else the wrapper's own. What was found for
// one place in MPI's code holds for all calls from there.
std::uint64_t BehindFortran(const Entrance& wrapper);

}  // namespace ncclwatch::shim::mpi
