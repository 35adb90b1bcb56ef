// What MPI does where it refuses a call: end the process, as it does by itself, or tell the program, which may have
// asked for it.
#pragma once

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

// False also before MPI_Init and after MPI_Finalize, where MPI knows of nobody to tell. Asks MPI itself.
[[gnu::cold]] bool TellsProgram(const Call& call);
// Of an error on an object that is no null handle.
[[gnu::cold]] bool TellsProgramOfComm(MPI_Comm comm);
[[gnu::cold]] bool TellsProgramOfWindow(MPI_Win window);

}  // namespace ncclwatch::shim::mpi
