// Bandwidths as nccl-tests define them (its doc/PERFORMANCE.md).
#pragma once

#include <cstdint>
#include <optional>

#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::functions {

// Also of MPI's messages.
constexpr Pattern PatternOf(Function function) {
  if (!IsMpi(function)) return PatternOfNccl(function);
  const Pattern pattern = PatternOfMpi(function);
  return pattern == Pattern::kNone && IsMessage(function) ? Pattern::kSend : pattern;
}

struct Bandwidth {
  double algbw_GBps = 0;  // 1e9 bytes a second: the operation's size by its time
  double busbw_GBps = 0;  // what each link carries: comparable between operations and numbers of ranks
};

struct BandwidthFactors {
  double size;  // of the operation, in what one rank passes
  double bus;   // busbw by algbw
};

constexpr std::optional<BandwidthFactors> FactorsOf(Pattern pattern, double ranks) {
  switch (pattern) {
    case Pattern::kAllReduce: return BandwidthFactors{1, 2 * (ranks - 1) / ranks};
    case Pattern::kReduceScatter:
    case Pattern::kAllGather:
    case Pattern::kAllToAll:
    case Pattern::kGather:
    case Pattern::kScatter: return BandwidthFactors{ranks, (ranks - 1) / ranks};
    case Pattern::kBroadcast:
    case Pattern::kReduce:
    case Pattern::kSend:
    case Pattern::kReceive: return BandwidthFactors{1, 1};
    default: return std::nullopt;
  }
}

// bytes: what one rank passes (count times size; to each peer for AllToAll, Gather's and Scatter's share of one rank).
// time_ns: of one operation. None where there is no such thing.
constexpr std::optional<Bandwidth> BandwidthOf(Pattern pattern, std::uint64_t bytes, std::uint32_t ranks,
                                               double time_ns) {
  if (ranks == 0 || bytes == 0 || time_ns <= 0) return std::nullopt;
  const auto factors = FactorsOf(pattern, ranks);
  if (!factors) return std::nullopt;
  const double algbw = static_cast<double>(bytes) * factors->size / time_ns;
  return Bandwidth{algbw, algbw * factors->bus};
}

}  // namespace ncclwatch::functions
