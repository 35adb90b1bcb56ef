#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/jobs/simulator/slow_draft.h"

namespace ncclwatch::jobs {
namespace {

std::vector<int> RanksFrom(int first, int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

std::vector<int> Behind(const SlowDraft& draft, int leaf) { return RanksFrom(leaf * draft.PerLeaf(), draft.PerLeaf()); }

void SlowLeaf(SlowDraft* draft, int leaf, int onset, double longer) {
  SlowPlan& plan = draft->plan;
  plan.layout = Layout::kLeaves;
  plan.bucket_share = 0.4;
  draft->times_every = std::min(draft->times_every, 2u);  // ten timed calls tell a level
  const int per_leaf = draft->PerLeaf(), per_node = draft->per_node;
  plan.link = [=](const std::vector<int>& ring, int step) {
    const bool among = std::all_of(ring.begin(), ring.end(), [&](int rank) { return rank / per_leaf == leaf; });
    return among && ring.front() / per_node != ring.back() / per_node && step >= onset ? longer : 1.0;
  };
}

// Data that pass a part of the machine take longer; `passes` is asked for rings that leave a node.
void SlowPart(SlowDraft* draft, std::vector<int> culprits,
              const std::function<bool(const std::vector<int>& ring)>& passes) {
  SlowPlan& plan = draft->plan;
  const int onset = draft->AnyOnset(), per_node = draft->per_node;
  const double longer = draft->Share(1.6, 3);
  plan.layout = Layout::kNeighbours;
  plan.bucket_share = 0.4;
  draft->times_every = std::min(draft->times_every, 2u);
  plan.link = [=](const std::vector<int>& ring, int step) {
    const bool leaves =
        std::any_of(ring.begin(), ring.end(), [&](int rank) { return rank / per_node != ring.front() / per_node; });
    return leaves && step >= onset && passes(ring) ? longer : 1.0;
  };
  draft->Answer("slow_communication", std::move(culprits), onset);
  draft->truth.story = fmt::format("data take {:.1f} times as long from step {} on", longer, onset);
}

}  // namespace

void PlantSwitch(SlowDraft* draft) {
  const int leaf = draft->AnyLeaf(), onset = draft->AnyOnset();
  SlowLeaf(draft, leaf, onset, 42.0 / 17.0);
  draft->Answer("slow_communication", Behind(*draft, leaf), onset);
  draft->truth.story = fmt::format("behind leaf switch {} data take 42/17 times as long from step {} on", leaf, onset);
}

void PlantStragglerAndSwitch(SlowDraft* draft) {
  const int first = 30 + draft->dice.Below(30), second = first + 40 + draft->dice.Below(30);
  const int leaf = draft->AnyLeaf(), rank = draft->AnyRank();
  const bool link_first = draft->dice.OneIn(2);
  SlowLeaf(draft, leaf, link_first ? first : second, 2.5);
  draft->plan.compute = OneRank(rank, link_first ? second : first, 0.3);
  draft->Answer("straggler", {rank}, link_first ? second : first);
  draft->Answer("slow_communication", Behind(*draft, leaf), link_first ? first : second);
  if (link_first) std::swap(draft->truth.answers[0], draft->truth.answers[1]);
  draft->truth.story = fmt::format("rank {} and leaf switch {}, from steps {} and {} on", rank, leaf, first, second);
}

void PlantAdapter(SlowDraft* draft) {
  const int slow = draft->AnyRank();
  SlowPart(draft, {slow}, [=](const auto& ring) { return std::find(ring.begin(), ring.end(), slow) != ring.end(); });
  draft->truth.story = fmt::format("the adapter of rank {}: ", slow) + draft->truth.story;
}

// Neighbours behind one switch.
void PlantPairOfHosts(SlowDraft* draft) {
  const int per_node = draft->per_node, leaf_nodes = draft->plan.leaf_nodes;
  const int first = draft->AnyLeaf() * leaf_nodes + draft->dice.Below(leaf_nodes - 1);
  SlowPart(draft, RanksFrom(first * per_node, 2 * per_node), [=](const auto& ring) {
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const int one = ring[i] / per_node, other = ring[(i + 1) % ring.size()] / per_node;
      if (std::min(one, other) == first && std::max(one, other) == first + 1) return true;
    }
    return false;
  });
  draft->truth.story = fmt::format("between nodes {} and {}: ", first, first + 1) + draft->truth.story;
}

void PlantWholeSwitch(SlowDraft* draft) {
  const int leaf = draft->AnyLeaf(), per_leaf = draft->PerLeaf();
  SlowPart(draft, Behind(*draft, leaf), [=](const auto& ring) {
    return std::any_of(ring.begin(), ring.end(), [&](int rank) { return rank / per_leaf == leaf; });
  });
  draft->truth.story = fmt::format("all that passes leaf switch {}: ", leaf) + draft->truth.story;
}

void PlantNetwork(SlowDraft* draft) {
  SlowPart(draft, {}, [](const auto&) { return true; });
  draft->truth.story = "between all nodes: " + draft->truth.story;
}

}  // namespace ncclwatch::jobs
