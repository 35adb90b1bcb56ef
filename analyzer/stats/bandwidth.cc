#include "analyzer/stats/bandwidth.h"

namespace ncclwatch::analyzer {
namespace {

struct Factors {
  double size;  // of the operation, in what one rank passes
  double bus;   // busbw by algbw
};

std::optional<Factors> FactorsOf(functions::Pattern pattern, double n) {
  using functions::Pattern;
  switch (pattern) {
    case Pattern::kAllReduce: return Factors{1, 2 * (n - 1) / n};
    case Pattern::kReduceScatter:
    case Pattern::kAllGather:
    case Pattern::kAllToAll:
    case Pattern::kGather:
    case Pattern::kScatter: return Factors{n, (n - 1) / n};
    case Pattern::kBroadcast:
    case Pattern::kReduce:
    case Pattern::kSend:
    case Pattern::kReceive: return Factors{1, 1};
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<Bandwidth> BandwidthOf(functions::Pattern pattern, std::uint64_t bytes, std::uint32_t ranks,
                                     double time_ns) {
  const auto factors = FactorsOf(pattern, ranks);
  if (!factors || ranks == 0 || bytes == 0 || time_ns <= 0) return std::nullopt;
  const double algbw = static_cast<double>(bytes) * factors->size / time_ns;
  return Bandwidth{algbw, algbw * factors->bus};
}

}  // namespace ncclwatch::analyzer
