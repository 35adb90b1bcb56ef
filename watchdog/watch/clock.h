// The clocks that a black box speaks of.
#pragma once

#include <cstdint>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::watch {

std::int64_t Monotonic();  // CLOCK_MONOTONIC, ns
std::int64_t Realtime();   // CLOCK_REALTIME, ns

// Keeps the two anchors of a box fresh. The slope is taken over the whole time since the box was made: the longer the
// base, the smaller the error of the two readings.
class ClockKeeper {
 public:
  explicit ClockKeeper(format::Header* own);
  void Reanchor();

 private:
  format::Clock* clock_;
  format::ClockAnchor first_;
};

}  // namespace ncclwatch::watch
