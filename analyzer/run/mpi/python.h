// The MPI of a Python interpreter: that of its mpi4py, found in its folders without running it.
#pragma once

#include <optional>
#include <string>

#include "analyzer/run/mpi/mpi.h"
#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {

// Of a Python interpreter, or of a script that has one; none for all else, and where mpi4py is built for several.
std::optional<Evidence> MpiOfPython(const std::string& path, const Surroundings& here);

}  // namespace ncclwatch::analyzer
