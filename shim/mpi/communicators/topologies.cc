#include "shim/mpi/communicators/topologies.h"

#include <algorithm>
#include <cstdint>

#include "shim/black_box/table.h"
#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/checks.h"

namespace ncclwatch::shim::mpi {

namespace {

bool FitsIn(Call& call, std::int64_t places) {
  if (call.inter || call.size == 0 || places <= std::int64_t{call.size}) return true;
  Report(call, {.wrong = Wrong::kTopologyTooLarge, .value = places, .limit = call.size});
  return false;
}

}  // namespace

void CheckGrid(Call& call, int dimensions, const int* dims) {
  constexpr std::int64_t kEnough = INT32_MAX;
  CheckCount(call, dimensions);
  std::int64_t places = 1;
  for (int i = 0; dims && i < dimensions; ++i) {
    if (dims[i] < 0) return Report(call, {.wrong = Wrong::kNegativeDimension, .value = dims[i]});
    places = std::min(places * dims[i], kEnough);
  }
  if (dims) FitsIn(call, places);
}

std::int64_t EdgesOf(int nodes, const int* index) {
  if (!index) return 0;
  for (int i = 0; i < nodes; ++i)
    if (index[i] < (i > 0 ? index[i - 1] : 0)) return 0;
  return nodes > 0 ? index[nodes - 1] : 0;
}

void CheckGraph(Call& call, int nodes, const int* index, const int* edges) {
  CheckCount(call, nodes);
  if (!FitsIn(call, nodes)) return;
  const std::int64_t number = edges ? EdgesOf(nodes, index) : 0;
  for (std::int64_t i = 0; i < number; ++i)
    if (edges[i] < 0 || edges[i] >= nodes)
      return Report(call, {.wrong = Wrong::kNodeOutOfRange, .value = edges[i], .limit = nodes});
}

void CheckNodes(Call& call, int number, const int* ranks) {
  CheckCount(call, number);
  for (int i = 0; ranks && i < number; ++i)
    if (ranks[i] != MPI_PROC_NULL && !InRange(call, ranks[i]))
      return Report(call, {.wrong = Wrong::kRankOutOfRange, .value = ranks[i], .limit = call.size});
}

void CheckDistributed(Call& call, int number, const int* sources, const int* degrees, const int* destinations) {
  CheckNodes(call, number, sources);
  if (call.misuse || !degrees) return;
  int edges = 0;
  for (int i = 0; i < number; ++i)
    if (degrees[i] < 0 || __builtin_add_overflow(edges, degrees[i], &edges)) return;
  CheckNodes(call, edges, destinations);
}

int DimensionsOf(MPI_Comm comm) {
  auto* ask_topology = NCCLWATCH_REAL(MPI_Topo_test);
  auto* ask_dimensions = NCCLWATCH_REAL(MPI_Cartdim_get);
  int topology = MPI_UNDEFINED, dimensions = 0;
  if (!ask_topology || !ask_dimensions || ask_topology(comm, &topology) != MPI_SUCCESS || topology != MPI_CART ||
      ask_dimensions(comm, &dimensions) != MPI_SUCCESS)
    return 0;
  return dimensions;
}

void TellLeaders(Call& call, CollectiveArguments& arguments, MPI_Comm peers, int other) {
  const std::uint32_t index = call.box.handles.Find(Bits(peers));
  if (index == format::kNoCommunicator || other < 0) return;
  const format::Communicator& entry = call.box.communicators[index];
  constexpr std::uint32_t kUnclear = format::kCommInter | format::kCommIdentityUnknown | format::kCommRankUnknown;
  if ((entry.flags & kUnclear) != 0 ||
      std::max<std::uint32_t>(entry.size, static_cast<std::uint32_t>(other)) > UINT16_MAX)
    return;
  const std::uint32_t own = entry.rank, theirs = static_cast<std::uint32_t>(other);
  const std::uint32_t both = std::max(own, theirs) << 16 | std::min(own, theirs);
  const std::uint64_t pair = IdOf(Origin::kInter, entry.id, 0, both);
  arguments.Tell({both, static_cast<std::uint16_t>(Argument::kLeaders), 0, pair});
  call.bytes = 1 + CountUse(call.box, pair);
}

}  // namespace ncclwatch::shim::mpi
