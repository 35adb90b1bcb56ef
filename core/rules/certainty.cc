#include "core/rules/certainty.h"

#include <algorithm>
#include <numeric>

namespace ncclwatch::diagnosis {

bool MajorityIsFinal(std::vector<std::size_t> votes, std::size_t all) {
  std::sort(votes.rbegin(), votes.rend());
  const std::size_t sum = std::accumulate(votes.begin(), votes.end(), std::size_t{0});
  return sum >= all || (votes.size() > 1 && votes[0] - votes[1] > all - sum);
}

std::optional<Certainty> ByTime(const View& view, std::int64_t stalled_ns) {
  const Limits& limits = view.snapshot->limits;
  if (stalled_ns >= limits.likely_after_ns) return Certainty::kLikely;
  if (stalled_ns >= limits.suspect_after_ns) return Certainty::kSuspected;
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
