#include "tests/jobs/simulation/workload.h"

#include <algorithm>

namespace ncclwatch::simulation {

int Comm::RankOf(int rank) const {
  const auto found = std::lower_bound(members.begin(), members.end(), rank);
  return found != members.end() && *found == rank ? static_cast<int>(found - members.begin()) : -1;
}

}  // namespace ncclwatch::simulation
