// The clocks that a black box speaks of.
#pragma once

#include <cstdint>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::watch {

std::int64_t Monotonic();  // CLOCK_MONOTONIC, ns
std::int64_t Realtime();   // CLOCK_REALTIME, ns

// Keeps the clock of a box true: adds an anchor when the newest has drifted from CLOCK_MONOTONIC by more than the
// readings' own error. Anchors are few, so they are not spent where the newest is right.
class ClockKeeper {
 public:
  explicit ClockKeeper(format::Header* own) : clock_(&own->clock) {}
  void Check();

 private:
  void CheckRealtime();
  void CheckCounter();

  format::Clock* clock_;
};

}  // namespace ncclwatch::watch
