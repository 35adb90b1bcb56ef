// What a training's own numbers come to: nothing for healthy ones of many shapes, and the fault that was planted.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>

#include "core/slow/checkpoints.h"
#include "core/slow/learning.h"
#include "core/slow/memory_growth.h"
#include "core/slow/numbers.h"
#include "core/slow/throughput.h"
#include "tests/unit/diagnosis/training_series.h"

namespace ncclwatch::diagnosis::testing {
namespace {

std::vector<NumberFinding> AllOf(const Training& training) {
  const std::vector<RankNumbers> ranks = training.Numbers();
  std::vector<NumberFinding> found;
  for (const std::optional<NumberFinding>& one :
       {FindNotLearning(ranks), FindLossPlateau(ranks), FindMemoryGrowth(ranks),
        FindCheckpointOverdue(ranks, training.now_ns()), FindSlowerProgram(ranks)})
    if (one) found.push_back(*one);
  for (const NumberFault& fault : FindNumberFaults(ranks))
    found.push_back({.kind = Kind::kNumericFault, .summary = fault.metric});
  return found;
}

// At their end, and before it.
// `./dev soak` looks at a thousand.
TEST(HealthyTrainings, TheyAreSilent) {
  const unsigned seeds = std::getenv("NCCLWATCH_SOAK") ? 1000 : 150;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    Training training = Healthy(seed);
    for (const int quarters : {4, 3, 2}) {
      training.CutAt(training.steps() * quarters / (quarters == 4 ? 4 : quarters + 1));
      for (const NumberFinding& finding : AllOf(training))
        ADD_FAILURE() << "seed " << seed << ", " << training.steps() << " steps: " << Name(finding.kind) << ": "
                      << finding.summary << (finding.evidence.empty() ? "" : "\n  " + finding.evidence.front());
    }
  }
}

struct Planted {
  int onset = -1;               // -1: from the begin
  std::vector<int> ranks = {};  // empty: all
};

// 50 trainings with one fault each: in 48 at least it is found, with its onset within 10 steps and the ranks that have
// it, and nothing else is.
void Faulty(Kind kind, const std::function<Planted(unsigned seed, std::optional<Training>*)>& plant) {
  constexpr unsigned kSeeds = 50;
  unsigned found = 0, near = 0, others = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    std::optional<Training> training;
    const Planted planted = plant(seed, &training);
    for (const NumberFinding& finding : AllOf(*training)) {
      if (finding.kind != kind) {
        ++others;
        ADD_FAILURE() << "seed " << seed << ": " << Name(finding.kind) << ": " << finding.summary;
        continue;
      }
      ++found;
      EXPECT_EQ(finding.ranks, planted.ranks) << "seed " << seed << ": " << finding.summary;
      const bool within = planted.onset < 0 || std::abs(finding.step - planted.onset) <= 10;
      near += within;
      if (!within) std::cout << "seed " << seed << ", planted in " << planted.onset << ": " << finding.summary << "\n";
    }
  }
  std::cout << Name(kind) << ": " << found << " of " << kSeeds << " found, " << near << " with their onset, " << others
            << " others\n";
  EXPECT_GE(found, 48u);
  EXPECT_GE(near, 48u);
}

TEST(FaultyTrainings, MemoryThatLeaks) {
  Faulty(Kind::kMemoryGrowth, [](unsigned seed, std::optional<Training>* training) {
    *training = Healthy(seed, true, false);
    Training& of = **training;
    const int onset = of.steps() / 3, culprit = of.Between(0, of.ranks() - 1);
    const bool one = of.ranks() > 1 && seed % 2 == 0;
    Memory memory{.jitter = of.Between(0.0, 0.02)};
    memory.leak_from = onset;
    memory.leak = memory.level * of.Between(0.001, 0.005);
    memory.stairs = of.Between(1, 8);
    of.Say("memory_allocated", [&](int rank, int step) {
      Memory mine = memory;
      if (one && rank != culprit) mine.leak = 0;
      return Allocated(mine, step, &of);
    });
    return Planted{onset, one ? std::vector{culprit} : std::vector<int>{}};
  });
}

TEST(FaultyTrainings, MemoryThatFragments) {
  Faulty(Kind::kMemoryGrowth, [](unsigned seed, std::optional<Training>* training) {
    *training = Healthy(seed, true, false);
    Training& of = **training;
    const int onset = of.steps() / 3;
    const Memory memory{.jitter = of.Between(0.0, 0.03), .evaluation = 0};
    const double rate = memory.level * of.Between(0.001, 0.004);
    std::vector<std::vector<double>> allocated(static_cast<std::size_t>(of.ranks()));
    of.Say("memory_allocated", [&](int rank, int step) {
      allocated[static_cast<std::size_t>(rank)].push_back(Allocated(memory, step, &of));
      return allocated[static_cast<std::size_t>(rank)].back();
    });
    of.Say("memory_reserved", [&](int rank, int step) {
      return allocated[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)] + 0.1 * memory.level +
             rate * std::max(0, step - onset);
    });
    return Planted{onset, {}};
  });
}

TEST(FaultyTrainings, NothingIsLearned) {
  Faulty(Kind::kNotLearning, [](unsigned seed, std::optional<Training>* training) {
    *training = Healthy(seed, false);
    Training& of = **training;
    const int classes = of.Between(10, 50000);
    const double noise = of.Between(0.01, 0.07) * std::sqrt(of.ranks() / 8.0), off = of.Between(0.995, 1.01);
    of.Say("classes", [&](int, int) { return classes; });
    of.Say("loss", [&](int, int) { return std::log(classes) * off * of.Noise(noise); });
    return Planted{-1, {}};
  });
}

TEST(FaultyTrainings, TheLossStopsToFall) {
  Faulty(Kind::kLossPlateau, [](unsigned seed, std::optional<Training>* training) {
    *training = Training(8, 900, seed);
    Training& of = **training;
    const int onset = of.Between(150, 450);
    const double rate = of.Between(0.002, 0.005), noise = of.Between(0.01, 0.03);
    of.Say("loss", [&](int, int step) { return 8 * std::exp(-rate * std::min(step, onset)) * of.Noise(noise); });
    return Planted{onset, {}};
  });
}

TEST(FaultyTrainings, CheckpointsStayAway) {
  Faulty(Kind::kCheckpointOverdue, [](unsigned seed, std::optional<Training>* training) {
    *training = Healthy(seed, true, true, false);
    Training& of = **training;
    const int every = of.steps() / 10;
    int last = 0;
    for (int step = every; step < of.steps() * 6 / 10;
         step += std::max(1, static_cast<int>(every * of.Between(0.9, 1.1))))
      of.Event(0, last = step, "checkpoint");
    return Planted{last + every, {}};
  });
}

TEST(FaultyTrainings, TheProgramBecomesSlower) {
  Faulty(Kind::kRegression, [](unsigned seed, std::optional<Training>* training) {
    *training = Healthy(seed, true, true, true, false);
    Training& of = **training;
    const int onset = of.steps() / 2;
    const double noise = of.Between(0.01, 0.05), left = of.Between(0.7, 0.9);
    of.Say(seed % 2 ? "mfu" : "tokens_per_s",
           [&](int, int step) { return (step < onset ? 1 : left) * of.Noise(noise) * (step % 50 == 0 ? 0.4 : 1); });
    return Planted{onset, {}};
  });
}

TEST(FaultyTrainings, ItIsSaidWhenMemoryIsFull) {
  Training of(1, 600, 1);
  Memory memory{.jitter = 0.005, .evaluation = 0, .leak_from = 300, .leak = 0.05 * kGiB};
  of.Say("memory_allocated", [&](int, int step) { return Allocated(memory, step, &of); });
  of.Say("memory_total", [](int, int) { return 80 * kGiB; });
  const auto found = FindMemoryGrowth(of.Numbers());
  ASSERT_TRUE(found);
  // 20 GiB and 300 steps of 0.05 GiB are 35; 45 are left.
  const std::string& text = found->evidence.front();
  ASSERT_TRUE(text.starts_with("at that rate it is full in ")) << text;
  EXPECT_NEAR(std::stod(text.substr(27)), 900, 60) << text;
}

}  // namespace
}  // namespace ncclwatch::diagnosis::testing
