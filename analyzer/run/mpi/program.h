// The MPI that a program has: the library that it needs, or one inside it.
#pragma once

#include <optional>
#include <string>

#include "analyzer/run/mpi/mpi.h"
#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {

// Through all that the file needs; none if it is no ELF file or no MPI is reached.
std::optional<Evidence> MpiOfFile(const std::string& path, const Surroundings& here);

// The file has MPI_Init itself: calls do not leave it, so that no preloaded library sees them.
bool HasMpiInside(const std::string& path);

}  // namespace ncclwatch::analyzer
