#include "core/view/clocks.h"

#include <algorithm>

namespace ncclwatch::diagnosis {
namespace {

// Instants are added to it: a damaged box must not overflow them.
std::int64_t Bounded(std::int64_t ns) {
  constexpr std::int64_t kQuarter = INT64_MAX / 4;
  return std::clamp(ns, -kQuarter, kQuarter);
}

}  // namespace

Clocks::Clocks(const std::vector<reader::BoxImage>& boxes, std::string_view reference) : reference_(reference) {
  if (!boxes.empty()) realtime_ns_ = boxes.front().realtime_minus_monotonic_ns;
  const auto own = std::find_if(boxes.begin(), boxes.end(), [&](const auto& box) { return box.boot_id == reference_; });
  if (own != boxes.end()) realtime_ns_ = own->realtime_minus_monotonic_ns;
  for (const reader::BoxImage& box : boxes) {
    const reader::LeaderState& leader_state = box.leader_state;
    if (leader_state.job_minus_monotonic_ns == 0) continue;
    auto& [generation, clock] = job_clocks_[box.boot_id];
    if (clock != 0 && generation >= leader_state.generation) continue;
    generation = leader_state.generation;
    clock = leader_state.job_minus_monotonic_ns;
  }
}

std::int64_t Clocks::JobClock(std::string_view boot_id) const {
  const auto found = job_clocks_.find(boot_id);
  return found == job_clocks_.end() ? 0 : found->second.second;
}

std::int64_t Clocks::ShiftOf(const reader::BoxImage& box) const {
  if (box.boot_id == reference_) return 0;
  const std::int64_t here = JobClock(reference_), there = JobClock(box.boot_id);
  if (here != 0 && there != 0) return Bounded(there) - Bounded(here);
  return Bounded(box.realtime_minus_monotonic_ns) - Bounded(realtime_ns_);
}

}  // namespace ncclwatch::diagnosis
