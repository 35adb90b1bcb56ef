// From one node's CLOCK_MONOTONIC to another's: by the clock that the leaders of the job agreed on over the exchange,
// where the boxes tell it, else by the wall clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

// Keeps nothing of the boxes that it is made from.
class Clocks {
 public:
  // reference: boot id of the node on whose clock everything is told; if no box is of it, the first box's wall clock.
  Clocks(const std::vector<reader::BoxImage>& boxes, std::string_view reference);

  // To be added to an instant of the box.
  std::int64_t ShiftOf(const reader::BoxImage& box) const;
  std::int64_t realtime_minus_monotonic_ns() const { return realtime_ns_; }  // of the reference

 private:
  std::int64_t JobClock(std::string_view boot_id) const;

  std::string reference_;
  std::int64_t realtime_ns_ = 0;
  std::map<std::string, std::pair<std::uint64_t, std::int64_t>, std::less<>>
      job_clocks_;  // boot -> (generation, clock)
};

}  // namespace ncclwatch::diagnosis
