// Whose ranks are whose. Only of groups that are known to be good: MPI would end the job over a question about another.
#pragma once

#include <vector>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

// The ranks that the members of a group have in a larger one, MPI_UNDEFINED for those who are not in it. False: MPI did
// not answer. May throw std::bad_alloc.
bool RanksIn(MPI_Group group, MPI_Group whole, std::vector<int>* ranks);

// The ranks of a group that another one is made of, or without: each of them is there, and is named once.
void CheckMembers(Call& call, MPI_Group group, int number, const int* ranks);
void CheckRanges(Call& call, MPI_Group group, int number, int (*ranges)[3]);

}  // namespace ncclwatch::shim::mpi
