// Ranks of a job that have no black box: their processes, found among the user's own by the launcher's environment.
#pragma once

#include <cstdint>
#include <vector>

#include "ncclwatch/format/black_box.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::evidence {

struct BoxlessRank {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  std::int32_t rank = -1;
};

// One process for each rank of `own`'s job that is in neither list: same launcher instance, world size, attempt and
// master. Empty where the launcher told no ranks. Reads /proc of every process of the user: not for healthy times.
std::vector<BoxlessRank> FindBoxlessRanks(const format::Identity& own, const std::vector<std::int32_t>& ranks_seen);
// The same for a launcher that is known.
std::vector<BoxlessRank> FindBoxlessRanksOf(const format::Identity& own, const rundir::Instance& launcher,
                                            const std::vector<std::int32_t>& ranks_seen);

}  // namespace ncclwatch::evidence
