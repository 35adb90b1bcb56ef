// Whose ranks are whose. Only of groups that are known to be good: MPI would end the job over a question about another.
#pragma once

#include <vector>

#include "shim/mpi/abi.h"

namespace ncclwatch::shim::mpi {

// The ranks that the members of a group have in a larger one, MPI_UNDEFINED for those who are not in it. False: MPI did
// not answer. May throw std::bad_alloc.
bool RanksIn(MPI_Group group, MPI_Group whole, std::vector<int>* ranks);

}  // namespace ncclwatch::shim::mpi
