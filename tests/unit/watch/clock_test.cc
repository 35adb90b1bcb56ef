#include "watchdog/watch/base/clock.h"
#include "ncclwatch/nanoseconds.h"

#include <gtest/gtest.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ncclwatch::watch {
namespace {

std::uint64_t Counter() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#endif
}

struct Instant {
  std::uint64_t ticks = 0;
  std::int64_t monotonic_ns = 0;
};

// The tightest of many readings: this thread may lose the processor between the two clocks.
Instant Now() {
  Instant best;
  std::int64_t width = INT64_MAX;
  for (int i = 0; i < 200; ++i) {
    const std::int64_t before = Monotonic();
    const std::uint64_t ticks = Counter();
    const std::int64_t after = Monotonic();
    if (after - before >= width) continue;
    width = after - before;
    best = {ticks, before + width / 2};
  }
  return best;
}

class ClockTest : public ::testing::Test {
 protected:
  // A box anchored a second ago with a rate that is wrong by so many parts in a million.
  void AnchorASecondAgo(double wrong_ppm) {
    const Instant from = Now();
    usleep(200'000);
    const Instant to = Now();
    const double ns_per_tick =
        static_cast<double>(to.monotonic_ns - from.monotonic_ns) / static_cast<double>(to.ticks - from.ticks);
    const auto second = static_cast<std::uint64_t>(static_cast<double>(kSecond) / ns_per_tick);
    clock_.source = static_cast<std::uint32_t>(format::ClockSource::kCycleCounter);
    clock_.anchors[0] = {to.ticks - second, to.monotonic_ns - kSecond, ns_per_tick * (1 + wrong_ppm * 1e-6)};
    clock_.anchored = 1;
    clock_.realtime_minus_monotonic_ns = Realtime() - Monotonic();
  }
  void Check() { ClockKeeper(&header_).Check(); }

  format::Header header_{};
  format::Clock& clock_ = header_.clock;
};

TEST_F(ClockTest, AnAnchorThatIsRightStays) {
  AnchorASecondAgo(0);
  Check();
  EXPECT_EQ(clock_.anchored, 1u);
}

TEST_F(ClockTest, AnAnchorThatDriftsIsFollowedByABetterOne) {
  for (double wrong_ppm : {100.0, -100.0}) {
    AnchorASecondAgo(wrong_ppm);
    const double true_rate = clock_.anchors[0].ns_per_tick / (1 + wrong_ppm * 1e-6);
    Check();
    ASSERT_EQ(clock_.anchored, 2u);
    EXPECT_NEAR(clock_.anchors[1].ns_per_tick / true_rate, 1, 20e-6);
    EXPECT_GE(clock_.anchors[1].monotonic_ns, Monotonic() - kSecond);
    Check();
    EXPECT_EQ(clock_.anchored, 2u) << "too soon after the last";
  }
}

TEST_F(ClockTest, AMonotonicSourceNeedsNoAnchors) {
  Check();
  EXPECT_EQ(clock_.anchored, 0u);
}

TEST_F(ClockTest, OnlyASetRealtimeClockIsTakenOver) {
  const std::int64_t offset = Realtime() - Monotonic();
  clock_.realtime_minus_monotonic_ns = offset + 500'000;
  Check();
  EXPECT_EQ(clock_.realtime_minus_monotonic_ns, offset + 500'000);
  clock_.realtime_minus_monotonic_ns = offset - kSecond;
  Check();
  EXPECT_NEAR(static_cast<double>(clock_.realtime_minus_monotonic_ns - offset), 0, 1e6);
}

}  // namespace
}  // namespace ncclwatch::watch
