// Cartesian and graph topologies, and the two groups of an inter-communicator: what is checked of the arguments that
// make them, and asked of those that are there.
#pragma once

#include "shim/mpi/core/call.h"
#include "shim/mpi/record/collective_arguments.h"

namespace ncclwatch::shim::mpi {

void CheckGrid(Call& call, int dimensions, const int* dims);
void CheckGraph(Call& call, int nodes, const int* index, const int* edges);
// Of the ranks that a distributed graph names.
void CheckNodes(Call& call, int number, const int* ranks);
void CheckDistributed(Call& call, int number, const int* sources, const int* degrees, const int* destinations);
// How many edges the arguments of MPI_Graph_create name; 0 where that is not clear.
std::int64_t EdgesOf(int nodes, const int* index);
// Of a Cartesian communicator, else 0.
int DimensionsOf(MPI_Comm comm);
// Who makes an inter-communicator with whom, as the leader of one of its groups knows.
void TellLeaders(Call& call, CollectiveArguments& arguments, MPI_Comm peers, int other);

}  // namespace ncclwatch::shim::mpi
