#include "analyzer/replay/fates.h"

#include <algorithm>

namespace ncclwatch::analyzer {

bool SameProcess(const reader::Observation& seen, const reader::BoxImage& box) {
  return seen.pid == box.pid && seen.start_time == box.start_time;
}

Fates::Fates(const Recording& recording) {
  for (const reader::BoxImage& box : recording.run().boxes)
    if (box.leader_state.verdict_at_ns != 0)
      verdict_ns_ = std::max(verdict_ns_, box.leader_state.verdict_at_ns + box.realtime_minus_monotonic_ns);
  for (const reader::BoxImage& box : recording.run().boxes)
    for (const reader::Observation& seen : box.observations)
      if (seen.what != format::Observed::kNothing && BeforeVerdict(seen.at_ns, box)) seen_.push_back(seen);
}

bool Fates::BeforeVerdict(std::int64_t at_ns, const reader::BoxImage& box) const {
  return at_ns + box.realtime_minus_monotonic_ns <= verdict_ns_;
}

bool Fates::Leaves(const reader::BoxImage& box) const {
  const bool ended = box.last_words.written && BeforeVerdict(box.last_words.at_ns, box);
  return ended || std::any_of(seen_.begin(), seen_.end(), [&](const auto& seen) { return SameProcess(seen, box); });
}

}  // namespace ncclwatch::analyzer
