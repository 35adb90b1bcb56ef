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

std::optional<Fates::End> Fates::EndOf(const reader::BoxImage& box) const {
  const auto seen = std::find_if(seen_.rbegin(), seen_.rend(), [&](const auto& one) { return SameProcess(one, box); });
  if (seen != seen_.rend() && seen->what != format::Observed::kGone) return End{.stopped = true};
  if (seen != seen_.rend()) return End{.signal = seen->exit_signal, .status = seen->exit_status};
  if (!box.last_words.written || !BeforeVerdict(box.last_words.at_ns, box)) return std::nullopt;
  return End{.signal = box.last_words.signal, .status = box.last_words.exit_status};
}

}  // namespace ncclwatch::analyzer
