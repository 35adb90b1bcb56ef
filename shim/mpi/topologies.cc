#include "shim/mpi/topologies.h"

#include <algorithm>
#include <cstdint>

#include "shim/mpi/communicators.h"
#include "shim/mpi/real.h"
#include "shim/recorder/table.h"

namespace ncclwatch::shim::mpi {

std::int64_t EdgesOf(int nodes, const int* index) {
  if (!index) return 0;
  for (int i = 0; i < nodes; ++i)
    if (index[i] < (i > 0 ? index[i - 1] : 0)) return 0;
  return nodes > 0 ? index[nodes - 1] : 0;
}

int DimensionsOf(MPI_Comm comm) {
  auto* ask_topology = NCCLWATCH_ASK(MPI_Topo_test);
  auto* ask_dimensions = NCCLWATCH_ASK(MPI_Cartdim_get);
  int topology = MPI_UNDEFINED, dimensions = 0;
  if (!ask_topology || !ask_dimensions || ask_topology(comm, &topology) != MPI_SUCCESS || topology != MPI_CART ||
      ask_dimensions(comm, &dimensions) != MPI_SUCCESS)
    return 0;
  return dimensions;
}

void TellLeaders(Call& call, Agreed& agreed, MPI_Comm peers, int other) {
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
  agreed.Tell({both, static_cast<std::uint16_t>(Argument::kLeaders), 0, pair});
  call.bytes = 1 + CountUse(call.box, pair);
}

}  // namespace ncclwatch::shim::mpi
