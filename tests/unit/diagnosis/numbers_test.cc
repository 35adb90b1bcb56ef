// The program's own numbers: who had what first.
#include "core/slow/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <random>

namespace ncclwatch::diagnosis {
namespace {

class Metrics {
 public:
  explicit Metrics(int ranks) : notes_(static_cast<std::size_t>(ranks)) {}
  void Say(int rank, std::int64_t step, const char* name, double value) {
    notes_[static_cast<std::size_t>(rank)].push_back(
        {format::NoteKind::kMetric, step * 1000 + rank, step, value, name});
  }
  std::vector<NumberFault> Faults() const {
    std::vector<RankNumbers> ranks;
    for (std::size_t rank = 0; rank < notes_.size(); ++rank)
      ranks.push_back({static_cast<int>(rank), 0, &notes_[rank]});
    return FindNumberFaults(ranks);
  }

 private:
  std::deque<std::vector<reader::Note>> notes_;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Metrics TrainingMetrics(int ranks, int steps, unsigned seed = 1) {
  Metrics job(ranks);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.05);
  for (int step = 0; step < steps; ++step)
    for (int rank = 0; rank < ranks; ++rank) {
      job.Say(rank, step, "loss", 2 * std::exp(-0.002 * step) + noise(random));
      job.Say(rank, step, "grad_norm", 1 + noise(random));
      job.Say(rank, step, "replica:parameters", 0.1 * step);
    }
  return job;
}

TEST(Numbers, NothingIsWrongWithATraining) {
  for (unsigned seed = 0; seed < 50; ++seed) EXPECT_TRUE(TrainingMetrics(8, 500, seed).Faults().empty()) << seed;
}

TEST(Numbers, WhoHadItFirst) {
  Metrics job = TrainingMetrics(4, 100);
  job.Say(2, 100, "loss", kNan);
  job.Say(0, 100, "loss", 1);
  for (int rank = 0; rank < 4; ++rank) job.Say(rank, 101, "loss", kNan);
  const std::vector<NumberFault> faults = job.Faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].what, NumberFault::What::kNotFinite);
  EXPECT_EQ(faults[0].ranks, std::vector{2});
  EXPECT_EQ(faults[0].step, 100);
  ASSERT_TRUE(faults[0].gradient_rise);
  EXPECT_NEAR(*faults[0].gradient_rise, 1, 0.2);
}

TEST(Numbers, WhatIsReducedHidesNobody) {
  Metrics job = TrainingMetrics(4, 100);
  for (int rank = 0; rank < 4; ++rank) {
    job.Say(rank, 100, "loss", rank == 2 ? kNan : 1);
    job.Say(rank, 100, "grad_norm", kNan);
  }
  ASSERT_EQ(job.Faults().size(), 1u);
  EXPECT_EQ(job.Faults()[0].ranks, std::vector{2});
  EXPECT_EQ(job.Faults()[0].metric, "loss");
}

TEST(Numbers, AllAtOnceIsNoRanksFault) {
  Metrics job = TrainingMetrics(4, 100);
  for (int rank = 0; rank < 4; ++rank) job.Say(rank, 100, "loss", std::numeric_limits<double>::infinity());
  ASSERT_EQ(job.Faults().size(), 1u);
  EXPECT_TRUE(job.Faults()[0].ranks.empty());
  EXPECT_EQ(job.Faults()[0].all, 4u);
}

TEST(Numbers, AGradientThatRose) {
  Metrics job = TrainingMetrics(2, 100);
  for (int rank = 0; rank < 2; ++rank) job.Say(rank, 100, "grad_norm", 500);
  job.Say(1, 101, "loss", kNan);
  job.Say(0, 101, "loss", 1);
  ASSERT_EQ(job.Faults().size(), 1u);
  EXPECT_GT(*job.Faults()[0].gradient_rise, 100);
}

TEST(Numbers, ASpikeOfOneRank) {
  Metrics job = TrainingMetrics(4, 100);
  for (int rank = 0; rank < 4; ++rank) job.Say(rank, 100, "loss", rank == 3 ? 40 : 1.6);
  const std::vector<NumberFault> faults = job.Faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].what, NumberFault::What::kSpike);
  EXPECT_EQ(faults[0].ranks, std::vector{3});
  EXPECT_GT(faults[0].score, 50);
}

TEST(Numbers, TheMinorityOfReplicas) {
  Metrics job = TrainingMetrics(4, 10);
  for (int rank = 0; rank < 4; ++rank) job.Say(rank, 10, "replica:parameters", rank == 1 ? 7 : 8);
  ASSERT_EQ(job.Faults().size(), 1u);
  EXPECT_EQ(job.Faults()[0].ranks, std::vector{1});
  Metrics tie = TrainingMetrics(2, 10);
  for (int rank = 0; rank < 2; ++rank) tie.Say(rank, 10, "replica:parameters", rank);
  ASSERT_EQ(tie.Faults().size(), 1u);
  EXPECT_TRUE(tie.Faults()[0].ranks.empty());
}

}  // namespace
}  // namespace ncclwatch::diagnosis
