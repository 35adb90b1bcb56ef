// Stragglers in step tables that are made from random numbers: whom it names, and that it is silent.
#include "core/slow/straggler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/slow/find.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::int64_t kStep_ns = 100'000'000, kCommunication_ns = 10'000'000;

struct Plan {
  std::size_t ranks = 8, steps = 200;
  std::size_t slow = SIZE_MAX, from = 0;  // rank, first step
  double by = 0;                          // share of its computation
  std::size_t every = 1;                  // in one step of so many
  double jitter = 0.05;
};

// Each rank computes for about as long and then waits for the last one.
StepTable Made(const Plan& plan, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> jitter(1 - plan.jitter, 1 + plan.jitter);
  StepTable table;
  for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
    table.ranks.push_back(static_cast<int>(rank));
    table.parts.emplace_back(plan.steps);
  }
  std::int64_t now = 1'000'000'000;
  for (std::size_t step = 0; step < plan.steps; ++step) {
    std::vector<std::int64_t> compute(plan.ranks);
    for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
      const bool slow = rank == plan.slow && step >= plan.from && step % plan.every == 0;
      compute[rank] = static_cast<std::int64_t>(kStep_ns * jitter(random) * (slow ? 1 + plan.by : 1));
    }
    std::vector<std::int64_t> sorted = compute;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
      StepPart& part = table.parts[rank][step];
      part.began_ns = now;
      part.duration_ns = sorted.back() + kCommunication_ns;
      part.exposed_ns = kCommunication_ns;
      part.wait_ns = sorted.back() - compute[rank];
      part.late_ns = compute[rank] - sorted[(plan.ranks - 1) / 2];
    }
    now += sorted.back() + kCommunication_ns;
  }
  return table;
}

std::optional<Straggler> FindStraggler(const StepTable& table, double least) {
  std::vector<Straggler> all = FindStragglers(table, least);
  return all.size() == 1 ? std::optional(std::move(all.front())) : std::nullopt;
}

class OfRanks : public ::testing::TestWithParam<std::size_t> {};

TEST_P(OfRanks, FivePercentAreFound) {
  int right = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::size_t slow = seed % GetParam();
    const auto found = FindStraggler(Made({GetParam(), 200, slow, 60, 0.06}, seed), kLeastShareLost);
    if (!found) continue;
    EXPECT_EQ(found->rows, std::vector{slow}) << seed;
    EXPECT_NEAR(static_cast<double>(found->onset), 60, 10) << seed;
    right += found->rows == std::vector{slow};
  }
  EXPECT_GE(right, 48);
}

TEST_P(OfRanks, NobodyIsAccusedOfJitter) {
  for (unsigned seed = 0; seed < 50; ++seed)
    EXPECT_FALSE(FindStraggler(Made({GetParam(), 200}, seed), kLeastShareLost)) << seed;
}

TEST_P(OfRanks, OneStepInTwenty) {
  int right = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::size_t slow = seed % GetParam();
    const auto found = FindStraggler(Made({GetParam(), 200, slow, 0, 1, 20}, seed), kLeastShareLost);
    right += found && found->now_and_then && found->rows == std::vector{slow};
  }
  EXPECT_GE(right, 48);
}

INSTANTIATE_TEST_SUITE_P(Straggler, OfRanks, ::testing::Values(2, 8, 64, 256));

TEST(Straggler, AHostOfSlowRanks) {
  StepTable table = Made({16, 100}, 1);
  for (std::size_t rank = 4; rank < 8; ++rank)
    for (StepPart& part : table.parts[rank]) part.late_ns += kStep_ns / 5;
  const auto found = FindStraggler(table, kLeastShareLost);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rows, (std::vector<std::size_t>{4, 5, 6, 7}));
}

TEST(Straggler, HalfOfTheRanksAreNoException) {
  StepTable table = Made({8, 100}, 1);
  for (std::size_t rank = 0; rank < 5; ++rank)
    for (StepPart& part : table.parts[rank]) part.late_ns += kStep_ns / 5;
  EXPECT_FALSE(FindStraggler(table, kLeastShareLost));
}

TEST(Straggler, FewStepsTellNothing) {
  EXPECT_FALSE(FindStraggler(Made({8, 19, 3, 0, 1}, 1), kLeastShareLost));
  EXPECT_FALSE(FindStraggler(StepTable(), kLeastShareLost));
}

// Ranks on a ring wait for the messages of their two neighbours alone: who is late makes these late, and they theirs.
// No collective tells who comes last.
StepTable Halo(const Plan& plan, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> jitter(1 - plan.jitter, 1 + plan.jitter);
  StepTable table;
  for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
    table.ranks.push_back(static_cast<int>(rank));
    table.parts.emplace_back(plan.steps);
  }
  // Of each rank: when it makes the first call of the step, and when its exchange is over.
  std::vector<std::int64_t> called(plan.ranks), over(plan.ranks);
  for (std::size_t step = 0; step <= plan.steps; ++step) {
    const std::vector<std::int64_t> before = called, ended = over;
    for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
      const bool slow = rank == plan.slow && step >= plan.from && step % plan.every == 0;
      called[rank] = over[rank] + static_cast<std::int64_t>(kStep_ns * jitter(random) * (slow ? 1 + plan.by : 1));
    }
    for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
      const std::size_t left = (rank + plan.ranks - 1) % plan.ranks, right = (rank + 1) % plan.ranks;
      over[rank] = std::max({called[rank], called[left], called[right]}) + kCommunication_ns;
      if (step == 0) continue;
      StepPart& part = table.parts[rank][step - 1];
      part.began_ns = before[rank];
      part.duration_ns = called[rank] - before[rank];
      part.message_ns = ended[rank] - before[rank];
    }
  }
  return table;
}

TEST(StragglerByOwnTime, OfNeighboursTheOneThatWaitsForNobody) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const StepTable table = Halo({8, 200, seed % 8, 60, 0.3}, seed);
    EXPECT_TRUE(FindStragglers(table, kLeastShareLost).empty()) << seed;
    const std::vector<Straggler> all = FindStragglersByOwnTime(table, kLeastShareLost);
    ASSERT_EQ(all.size(), 1u) << seed;
    EXPECT_EQ(all.front().rows, std::vector<std::size_t>{seed % 8}) << seed;
    EXPECT_NEAR(static_cast<double>(all.front().onset), 60, 10) << seed;
  }
}

TEST(StragglerByOwnTime, NowAndThen) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const auto all = FindStragglersByOwnTime(Halo({8, 200, seed % 8, 0, 4.0, 20}, seed), kLeastShareLost);
    ASSERT_EQ(all.size(), 1u) << seed;
    EXPECT_EQ(all.front().rows, std::vector<std::size_t>{seed % 8}) << seed;
    EXPECT_TRUE(all.front().now_and_then) << seed;
  }
}

TEST(StragglerByOwnTime, NobodyIsAccusedOfJitter) {
  for (unsigned seed = 0; seed < 50; ++seed)
    EXPECT_TRUE(FindStragglersByOwnTime(Halo({8, 200, SIZE_MAX, 0, 0, 1, 0.1}, seed), kLeastShareLost).empty()) << seed;
}

// The ranks of one communicator wait for slow data, and come late elsewhere: one of them a little later than the
// others.
TEST(Straggler, WithoutWhomOthersWouldComeAsLateIsNone) {
  StepTable table = Made({.ranks = 16, .jitter = 0.001}, 1);
  StepPeers peers{.rows = {9, 10, 11, 12, 13, 14, 15}, .late_ns = {}, .kernel_late_ns = {}};
  for (const std::size_t row : peers.rows) {
    const bool a_little_later = row == 9;
    for (StepPart& part : table.parts[row]) part.late_ns += kStep_ns / 10 + (a_little_later ? kStep_ns / 250 : 0);
    peers.late_ns.emplace_back(table.steps(), a_little_later ? kStep_ns / 20 : 0);
  }
  table.peers.push_back(std::move(peers));
  for (int host = 0; host < 16; ++host) table.hosts.push_back(host);
  ASSERT_FALSE(FindStragglers(table, kLeastShareLost).empty());
  const Snapshot snapshot;
  const View view = MakeView(snapshot);
  for (const Finding& finding : FindSlowSteps(view, table, {})) ADD_FAILURE() << finding.summary;
}

// Two ranks of eight are late because their data take longer. Without a link that explains it nobody is accused.
TEST(Straggler, WhoWaitsForDataIsNone) {
  StepTable table = Made({8, 100}, 1);
  for (const std::size_t rank : {2, 3})
    for (StepPart& part : table.parts[rank]) {
      part.late_ns += kStep_ns / 5;
      part.exposed_ns += kStep_ns / 5;
      part.duration_ns += kStep_ns / 5;
    }
  for (int host = 0; host < 8; ++host) table.hosts.push_back(host);
  const auto stragglers = FindStragglers(table, kLeastShareLost);
  ASSERT_EQ(stragglers.size(), 1u);
  EXPECT_EQ(stragglers.front().rows, (std::vector<std::size_t>{2, 3}));
  const Snapshot snapshot;
  const View view = MakeView(snapshot);
  EXPECT_TRUE(FindSlowSteps(view, table, {}).empty());
  table.enqueued = true;  // of kernels that the host does not wait for, its own calls tell nothing of that
  EXPECT_FALSE(FindSlowSteps(view, table, {}).empty());
}

}  // namespace
}  // namespace ncclwatch::diagnosis
