// The offset between two nodes' CLOCK_MONOTONIC from round trips, as NTP does it. Of the last samples the one with the
// smallest error counts: half its round trip, whichever way the time went, and what two clocks may drift apart since.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace ncclwatch::exchange {

struct ClockOffset {
  std::int64_t offset_ns = 0;  // theirs minus ours
  std::int64_t error_ns = -1;  // at most so far from the truth while the clocks' rates differ by under kDrift
};

class ClockFilter {
 public:
  static constexpr std::int64_t kDrift_ppm = 200;

  // t1 ours when asked, t2 theirs when it came, t3 theirs when answered, t4 ours when the answer came.
  void Add(std::int64_t t1, std::int64_t t2, std::int64_t t3, std::int64_t t4) {
    const std::int64_t delay = (t4 - t1) - (t3 - t2);
    if (t4 < t1 || t3 < t2 || delay < 0) return;
    const Sample sample{(t2 - t1) / 2 + (t3 - t4) / 2, delay / 2 + 2, t4};
    // Two that cannot both be true: a clock was set back (a machine restored from a snapshot). The past says nothing.
    if (const std::optional<ClockOffset> best = Best(t4))
      if (Distance(best->offset_ns, sample.offset) > best->error_ns + sample.error) used_ = 0;
    samples_[next_] = sample;
    next_ = (next_ + 1) % kSamples;
    if (used_ < kSamples) ++used_;
  }

  std::optional<ClockOffset> Best(std::int64_t now_ns) const {
    std::optional<ClockOffset> best;
    for (std::size_t i = 0; i < used_; ++i) {
      const Sample& sample = samples_[(next_ + kSamples - 1 - i) % kSamples];
      const std::int64_t error = sample.error + (now_ns - sample.at) / 1'000'000 * kDrift_ppm;
      if (!best || error < best->error_ns) best = ClockOffset{sample.offset, error};
    }
    return best;
  }

 private:
  struct Sample {
    std::int64_t offset = 0, error = 0, at = 0;
  };
  static constexpr std::size_t kSamples = 16;
  static std::int64_t Distance(std::int64_t a, std::int64_t b) { return a < b ? b - a : a - b; }

  std::array<Sample, kSamples> samples_{};
  std::size_t next_ = 0, used_ = 0;
};

}  // namespace ncclwatch::exchange
