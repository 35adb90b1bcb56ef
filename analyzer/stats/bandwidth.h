// Bandwidths as nccl-tests define them (its doc/PERFORMANCE.md).
#pragma once

#include <cstdint>
#include <optional>

#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::analyzer {

struct Bandwidth {
  double algbw_GBps = 0;  // 1e9 bytes a second: the operation's size by its time
  double busbw_GBps = 0;  // what each link carries: comparable between operations and numbers of ranks
};

// bytes: what one rank passes (count times size; to each peer for AllToAll, Gather's and Scatter's share of one rank).
// time_ns: of one operation. None where there is no such thing.
std::optional<Bandwidth> BandwidthOf(functions::Pattern pattern, std::uint64_t bytes, std::uint32_t ranks,
                                     double time_ns);

}  // namespace ncclwatch::analyzer
