#include "simulation/workload.h"

#include <algorithm>
#include <bit>

namespace ncclwatch::simulation {

int Comm::RankOf(int rank) const {
  // Most are sorted; a split with keys of its own is not.
  auto found = std::lower_bound(members.begin(), members.end(), rank);
  if (found == members.end() || *found != rank) found = std::find(members.begin(), members.end(), rank);
  return found != members.end() && *found == rank ? static_cast<int>(found - members.begin()) : -1;
}

}  // namespace ncclwatch::simulation
