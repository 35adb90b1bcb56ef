// The measurement of what NCCL's profiler interface costs, on made-up jobs.
#include "shim/profiler/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace ncclwatch::shim::profiler {
namespace {

using Verdict = CostEstimate::Verdict;

struct Plan {
  double cost = 0;                                                        // added to a call in windows with events
  double jitter = 0.3;                                                    // of a call, as a share
  std::function<double(std::uint64_t)> shape = [](auto) { return 1.0; };  // of the call at a position
  std::uint64_t calls = 20'000'000;
};

// What becomes of a job whose calls take about 1 ms. The position at which it was decided.
struct Outcome {
  Verdict verdict = Verdict::kOpen;
  double cost = 0;
  std::uint64_t calls = 0;
};
Outcome Played(const Plan& plan, unsigned seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> jitter(0, plan.jitter);
  CostTrial trial;
  double now_ns = 1e9;
  for (std::uint64_t position = 0; position < plan.calls; ++position) {
    const bool events = trial.Enter(seed + 1, position, static_cast<std::int64_t>(now_ns));
    const CostEstimate& estimate = trial.estimate();
    if (estimate.verdict() != Verdict::kOpen) return {estimate.verdict(), estimate.cost(), position};
    now_ns += 1e6 * plan.shape(position) * jitter(random) * (events ? 1 + plan.cost : 1);
  }
  return {};
}

int Costly(const Plan& plan, int seeds) {
  int costly = 0;
  for (int seed = 0; seed < seeds; ++seed)
    costly += Played(plan, static_cast<unsigned>(seed)).verdict == Verdict::kCostly;
  return costly;
}

TEST(ProfilerCost, WhatCostsMuchIsFoundSoon) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Outcome outcome = Played({.cost = 0.105}, seed);
    EXPECT_EQ(outcome.verdict, Verdict::kCostly) << seed;
    EXPECT_NEAR(outcome.cost, 0.105, 0.04) << seed;
    EXPECT_LT(outcome.calls, 30'000u) << seed;
  }
}

TEST(ProfilerCost, OnePercentIsFoundInTheEnd) { EXPECT_GE(Costly({.cost = 0.01, .calls = 1'000'000}, 20), 18); }

TEST(ProfilerCost, WhatCostsNothingStays) {
  EXPECT_EQ(Costly({.cost = 0, .calls = 1'000'000}, 5), 0);
  EXPECT_LE(Costly({.cost = 0, .jitter = 1.5, .calls = 1'000'000}, 5), 1);
}

TEST(ProfilerCost, LoopsAndDriftsAreNoCost) {
  // Long calls in every second, third or fifth window; calls that become longer and longer; pauses.
  for (const std::uint64_t windows : {2u, 3u, 5u}) {
    const auto shape = [windows](std::uint64_t position) { return position / kWindowCalls % windows == 0 ? 2.0 : 1.0; };
    EXPECT_LE(Costly({.shape = shape, .calls = 1'000'000}, 5), 1) << windows;
  }
  EXPECT_LE(Costly({.shape = [](std::uint64_t position) { return 1 + static_cast<double>(position) / 1e5; },
                    .calls = 1'000'000},
                   5),
            1);
  EXPECT_LE(
      Costly({.shape = [](std::uint64_t position) { return position % 5000 == 0 ? 3000.0 : 1.0; }, .calls = 1'000'000},
             5),
      1);
}

TEST(ProfilerCost, WindowsThatWereNotSeenTellNothing) {
  CostTrial trial;
  std::int64_t now_ns = 1;
  // A third of the windows is passed over: no group of four is whole.
  for (std::uint64_t window = 0; window < 10'000; ++window)
    if (window % 3 != 0) trial.Enter(1, window * kWindowCalls, now_ns += 1000 * (HasEvents(1, window) ? 2 : 1));
  EXPECT_EQ(trial.estimate().verdict(), Verdict::kOpen);
}

}  // namespace
}  // namespace ncclwatch::shim::profiler
