// The MPI of a launcher: mpirun, mpiexec, orterun, prterun.
#pragma once

#include <optional>
#include <string>

#include "analyzer/run/mpi/mpi.h"
#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {

// None if this word of a command is no MPI's launcher, or does not tell whose it is.
std::optional<Evidence> MpiOfLauncher(const std::string& word, const Surroundings& here);

}  // namespace ncclwatch::analyzer
