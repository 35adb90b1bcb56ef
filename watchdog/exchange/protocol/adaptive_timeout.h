// How long a peer may be silent before it is taken for gone: what the network has shown lately decides. A healthy one
// is answered within a second; where packets are lost and TCP waits for their repetition, its pauses are learned.
#pragma once

#include <algorithm>
#include <cstdint>

#include "watchdog/exchange/protocol/exchange.h"

namespace ncclwatch::exchange {

// Who is silent for too long is taken for gone, but its connection is kept for so long: what is on its way may arrive.
inline std::int64_t DoubtFor_ns(const Timing& timing) { return 3 * timing.most_patience; }

class AdaptiveTimeout {
 public:
  AdaptiveTimeout(const Timing& timing, std::int64_t now_ns) : timing_(timing), heard_ns_(now_ns) {}

  void Heard(std::int64_t now_ns) {
    const std::int64_t gap = now_ns - heard_ns_;
    heard_ns_ = now_ns;
    longest_ = std::max(longest_, gap);
    if (++gaps_ % kWindow != 0) return;
    longest_before_ = longest_;
    longest_ = 0;
  }
  std::int64_t Limit_ns() const {
    const std::int64_t learned = 3 * longest_gap_ns();
    return std::clamp(learned, gaps_ < kEnough ? timing_.first_patience : timing_.least_patience,
                      timing_.most_patience);
  }
  // By how much a network that holds back what is said deserves more patience than a healthy one.
  std::int64_t Doubt_ns() const {
    return std::clamp(3 * longest_gap_ns(), timing_.least_patience, timing_.most_patience) - timing_.least_patience;
  }
  // Of a new connection over the same network: who was given up and has come back is believed for longer.
  AdaptiveTimeout Again(std::int64_t now_ns) const {
    AdaptiveTimeout again(timing_, now_ns);
    const std::int64_t away_ns = now_ns - heard_ns_;
    again.longest_before_ = std::max({longest_gap_ns(), away_ns < 3 * timing_.most_patience ? away_ns : 0});
    return again;
  }
  // awake_ns: since when this thread has run without a pause; what it slept through was nobody's silence.
  bool IsOver(std::int64_t now_ns, std::int64_t awake_ns) const {
    return now_ns - std::max(heard_ns_, awake_ns) > Limit_ns();
  }
  std::int64_t heard_ns() const { return heard_ns_; }
  std::int64_t longest_gap_ns() const { return std::max(longest_, longest_before_); }

 private:
  static constexpr std::uint32_t kWindow = 64, kEnough = 8;
  Timing timing_;
  std::int64_t heard_ns_;
  std::int64_t longest_ = 0, longest_before_ = 0;
  std::uint32_t gaps_ = 0;
};

}  // namespace ncclwatch::exchange
