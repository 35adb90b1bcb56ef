// What MPI does where it refuses a call: end the process, as it does by itself, or tell the program, which may have
// asked for it.
#pragma once

#include "shim/mpi/call.h"

namespace ncclwatch::shim::mpi {

// False also before MPI_Init and after MPI_Finalize, where MPI knows of nobody to tell. Asks MPI itself.
[[gnu::cold]] bool TellsProgram(const Call& call);

}  // namespace ncclwatch::shim::mpi
