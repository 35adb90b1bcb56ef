// Steps of several equal calls, told by the pauses between the calls.
#include "core/steps/bursts.h"

#include <gtest/gtest.h>

#include <random>

namespace ncclwatch::diagnosis {
namespace {

// Steps of so many calls `apart` from one another, and what comes before the next step; all times vary by a fifth.
struct EqualCalls {
  std::uint64_t calls = 4;
  double apart_us = 50;
  double pause_us = 10'000;
  std::uint64_t steps = 60;
  std::uint64_t offset = 0;        // of the first call's number
  std::uint64_t longer_every = 0;  // steps; 0: none is longer
  double longer_us = 0;
};

Burst Found(const EqualCalls& loop) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> varies(0.9, 1.1);
  std::vector<CallTime> times;
  double at_us = 0;
  for (std::uint64_t step = 0; step < loop.steps; ++step) {
    for (std::uint64_t call = 0; call < loop.calls; ++call) {
      times.push_back({loop.offset + times.size(), static_cast<std::int64_t>(at_us * 1000)});
      at_us += loop.apart_us * varies(random);
    }
    at_us += loop.pause_us * varies(random);
    if (loop.longer_every != 0 && step % loop.longer_every == 0) at_us += loop.longer_us;
  }
  return FindBurst(times);
}

TEST(Bursts, BucketsOfAGradient) {
  for (const std::uint64_t calls : {2u, 3u, 4u, 7u, 16u, 64u})
    EXPECT_EQ(Found({.calls = calls}), (Burst{calls, 0})) << calls;
  EXPECT_EQ(Found({.offset = 5}), (Burst{4, 1}));
}

TEST(Bursts, ComputationBetweenThem) {
  EXPECT_EQ(Found({.calls = 4, .apart_us = 2000, .pause_us = 3500}), (Burst{4, 0}));
}

TEST(Bursts, OneCallAStep) {
  EXPECT_EQ(Found({.calls = 1}), Burst{});
  EXPECT_EQ(Found({.calls = 1, .steps = 400, .longer_every = 10, .longer_us = 40'000}), Burst{}) << "a checkpoint";
  EXPECT_EQ(Found({.calls = 3, .steps = 400, .longer_every = 10, .longer_us = 40'000}), (Burst{3, 0}));
}

TEST(Bursts, TooFewToTell) { EXPECT_EQ(Found({.calls = 4, .steps = 6}), Burst{}); }

}  // namespace
}  // namespace ncclwatch::diagnosis
