// A slow job while its fault is chosen.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "simulation/chance.h"
#include "tests/jobs/simulator/slow_job.h"
#include "tests/jobs/simulator/slow_plan.h"

namespace ncclwatch::jobs {

struct SlowDraft {
  SlowPlan plan;
  SlowTruth truth;
  int ranks = 8, per_node = 8;
  std::uint32_t times_every = 1;
  Dice dice{1, 1};

  int AnyRank() { return dice.Below(ranks); }
  // So that 30 steps at least are before it and 60 after it.
  int AnyOnset() { return 30 + dice.Below(plan.steps - 90); }
  double Share(double low, double high) { return low + (high - low) * dice.Unit(); }
  int PerLeaf() const { return plan.leaf_nodes * per_node; }
  int AnyLeaf() { return dice.Below(ranks / PerLeaf()); }
  void Answer(const char* kind, std::vector<int> culprits, int onset) {
    truth.answers.push_back({{kind}, std::move(culprits), onset});
  }
};

// One rank that takes `by` longer, of the time, from a step on.
inline std::function<double(int rank, int step)> OneRank(int slow, int from, double by) {
  return [=](int rank, int step) { return rank == slow && step >= from ? 1 + by : 1.0; };
}

// Of the machine: in slow_links.cc.
void PlantSwitch(SlowDraft* draft);  // among the nodes behind it
void PlantStragglerAndSwitch(SlowDraft* draft);
void PlantAdapter(SlowDraft* draft);
void PlantPairOfHosts(SlowDraft* draft);
void PlantWholeSwitch(SlowDraft* draft);
void PlantNetwork(SlowDraft* draft);

}  // namespace ncclwatch::jobs
