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

// Bursts of `calls`, and after each eighteenth a call by itself.
std::uint64_t InMost(std::uint64_t calls, std::int64_t apart_ns, std::int64_t pause_ns) {
  std::vector<std::int64_t> times;
  std::int64_t now = 0;
  for (int burst = 1; burst <= 72; ++burst) {
    for (std::uint64_t call = 0; call < calls; ++call) times.push_back(now += apart_ns);
    if (burst % 18 == 0) times.push_back(now += apart_ns);
    now += pause_ns;
  }
  return CallsOfABurst(times);
}

TEST(Bursts, ACallMoreNowAndThen) {
  for (const std::uint64_t calls : {2u, 4u, 16u}) EXPECT_EQ(InMost(calls, 1'000'000, 15'000'000), calls) << calls;
  EXPECT_EQ(InMost(1, 1'000'000, 15'000'000), 0u) << "no bursts";
  EXPECT_EQ(InMost(4, 2'000'000, 6'000'000), 0u) << "layers differ so much, too";
  EXPECT_EQ(CallsOfABurst({}), 0u);
}

}  // namespace
}  // namespace ncclwatch::diagnosis
