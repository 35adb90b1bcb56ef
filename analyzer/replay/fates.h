// What had become of a recording's processes by the time of its verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

bool SameProcess(const reader::Observation& seen, const reader::BoxImage& box);

// What the recording's verdict rests on beside the calls. Of a recording without a verdict nothing: its processes ended
// because their work was done.
class Fates {
 public:
  explicit Fates(const Recording& recording);
  bool verdict() const { return verdict_ns_ != 0; }
  const std::vector<reader::Observation>& seen() const { return seen_; }
  // It had left the others behind, or stood still.
  bool Leaves(const reader::BoxImage& box) const { return EndOf(box).has_value(); }
  struct End {
    bool stopped = false;  // it stood still; else it was gone
    int signal = 0, status = 0;
  };
  std::optional<End> EndOf(const reader::BoxImage& box) const;

 private:
  bool BeforeVerdict(std::int64_t at_ns, const reader::BoxImage& box) const;

  std::int64_t verdict_ns_ = 0;  // CLOCK_REALTIME; 0: none
  std::vector<reader::Observation> seen_;
};

}  // namespace ncclwatch::analyzer
