#include "shim/mpi/record/neighbours.h"

#include <cstring>

#include "shim/mpi/core/real.h"

namespace ncclwatch::shim::mpi {
namespace {

constexpr int kMost = static_cast<int>(Neighbours::kMost);

bool OfGrid(MPI_Comm comm, Neighbours* found) {
  auto* ask_dimensions = NCCLWATCH_REAL(MPI_Cartdim_get);
  auto* shift = NCCLWATCH_REAL(MPI_Cart_shift);
  int dimensions = 0;
  if (!ask_dimensions || !shift || ask_dimensions(comm, &dimensions) != MPI_SUCCESS || 2 * dimensions > kMost)
    return false;
  int* place = found->from;  // two a dimension
  for (int i = 0; i < dimensions; ++i, place += 2)
    if (shift(comm, i, 1, place, place + 1) != MPI_SUCCESS) return false;
  found->sources = found->destinations = static_cast<std::uint32_t>(2 * dimensions);
  std::memcpy(found->to, found->from, found->sources * sizeof(int));
  return true;
}

bool OfGraph(MPI_Comm comm, int rank, Neighbours* found) {
  auto* count = NCCLWATCH_REAL(MPI_Graph_neighbors_count);
  auto* list = NCCLWATCH_REAL(MPI_Graph_neighbors);
  int number = 0;
  if (!count || !list || count(comm, rank, &number) != MPI_SUCCESS || number > kMost) return false;
  if (number > 0 && list(comm, rank, number, found->from) != MPI_SUCCESS) return false;
  found->sources = found->destinations = static_cast<std::uint32_t>(number);
  std::memcpy(found->to, found->from, found->sources * sizeof(int));
  return true;
}

bool OfDistributedGraph(MPI_Comm comm, Neighbours* found) {
  auto* count = NCCLWATCH_REAL(MPI_Dist_graph_neighbors_count);
  auto* list = NCCLWATCH_REAL(MPI_Dist_graph_neighbors);
  int in = 0, out = 0, weighted = 0;
  int weights[2][Neighbours::kMost];
  if (!count || !list || count(comm, &in, &out, &weighted) != MPI_SUCCESS || in > kMost || out > kMost) return false;
  if (list(comm, in, found->from, weights[0], out, found->to, weights[1]) != MPI_SUCCESS) return false;
  found->sources = static_cast<std::uint32_t>(in);
  found->destinations = static_cast<std::uint32_t>(out);
  return true;
}

}  // namespace

void FindNeighbours(const Call& call, MPI_Comm comm, Neighbours* neighbours) {
  auto* ask = NCCLWATCH_REAL(MPI_Topo_test);
  int topology = MPI_UNDEFINED;
  if (!ask || call.index == format::kNoCommunicator || ask(comm, &topology) != MPI_SUCCESS) return;
  neighbours->known = (topology == MPI_CART && OfGrid(comm, neighbours)) ||
                      (topology == MPI_GRAPH && OfGraph(comm, call.rank, neighbours)) ||
                      (topology == MPI_DIST_GRAPH && OfDistributedGraph(comm, neighbours));
}

}  // namespace ncclwatch::shim::mpi
