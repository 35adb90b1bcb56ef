#include "tests/jobs/simulator/slow_job.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "simulation/chance.h"
#include "tests/jobs/simulator/slow_draft.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

constexpr int kSlowSteps = 200;

// Any layout in which no rank has to wait for messages of another.
void AnyLayout(SlowDraft* draft) {
  constexpr Layout kLayouts[] = {Layout::kData, Layout::kTensor, Layout::kLeaves};
  draft->plan.layout = draft->dice.Of(kLayouts, 3);
  draft->plan.on_host = draft->dice.OneIn(2);
}

void PlantStraggler(SlowDraft* draft) {
  AnyLayout(draft);
  const int rank = draft->AnyRank(), onset = draft->AnyOnset();
  const double by = draft->Share(0.055, 0.3);
  draft->plan.compute = OneRank(rank, onset, by);
  draft->Answer("straggler", {rank}, onset);
  draft->truth.story = fmt::format("rank {} takes {:.0f} % longer from step {} on", rank, 100 * by, onset);
}

// Its clock falls little by little, while the host is as fast as the others.
void PlantHeat(SlowDraft* draft) {
  AnyLayout(draft);
  draft->plan.on_host = false;
  const int rank = draft->AnyRank(), onset = draft->AnyOnset();
  const double by = draft->Share(0.08, 0.25);
  draft->plan.compute = [=](int one, int step) {
    return one == rank ? 1 + by * std::clamp((step - onset + 1) / 8.0, 0.0, 1.0) : 1.0;
  };
  draft->Answer("straggler", {rank}, onset);
  draft->truth.story =
      fmt::format("the GPU of rank {} slows by {:.0f} % over 8 steps from {} on", rank, 100 * by, onset);
}

void PlantNeighbour(SlowDraft* draft) {
  AnyLayout(draft);
  draft->plan.steps *= static_cast<int>(draft->times_every);  // so that as many of the late steps are seen
  const int rank = draft->AnyRank(), first = 20 + draft->dice.Below(20);
  const double by = draft->Share(0.9, 2);
  draft->plan.compute = [=](int one, int step) {
    return one == rank && step >= first && (step - first) % 20 == 0 ? 1 + by : 1.0;
  };
  draft->Answer("straggler", {rank}, first);
  draft->truth.story = fmt::format("rank {} takes {:.1f} times as long in one step of 20", rank, 1 + by);
}

void PlantExperts(SlowDraft* draft) {
  SlowPlan& plan = draft->plan;
  plan.layout = Layout::kExperts;
  const int hot = draft->AnyRank(), onset = draft->AnyOnset();
  const double by = draft->Share(0.15, 0.6);
  // Tokens differ from step to step on all; they add up to the same.
  const Chance chance(plan.seed ^ 0xe);
  plan.compute = [=](int rank, int step) {
    const double own = chance.Unit(1, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(step));
    return (0.97 + 0.06 * own) * (rank == hot && step >= onset ? 1 + by : 1);
  };
  draft->Answer("straggler", {hot}, onset);
  draft->truth.story =
      fmt::format("the expert of rank {} gets {:.0f} % more tokens from step {} on", hot, 100 * by, onset);
}

void PlantBubble(SlowDraft* draft) {
  SlowPlan& plan = draft->plan;
  plan.layout = Layout::kPipeline;
  plan.stages = draft->dice.OneIn(2) ? 4 : 8;
  plan.steps = 100;
  if (draft->ranks < 16) plan.stages = 4;
  const int replicas = draft->ranks / plan.stages;
  if (draft->dice.OneIn(2)) {
    plan.batches = plan.stages * (1 + draft->dice.Below(2));
    draft->Answer("pipeline_bubble", {}, -1);
    draft->truth.story = fmt::format("{} micro-batches in {} stages", plan.batches, plan.stages);
    return;
  }
  plan.batches = 4 * plan.stages;
  const int uneven = draft->dice.Below(plan.stages);
  const double by = draft->Share(0.35, 0.8);
  plan.compute = [=](int rank, int) { return rank / replicas == uneven ? 1 + by : 1.0; };
  std::vector<int> culprits(static_cast<std::size_t>(replicas));
  std::iota(culprits.begin(), culprits.end(), uneven * replicas);
  draft->Answer("pipeline_bubble", std::move(culprits), -1);
  draft->truth.story = fmt::format("stage {} of {} takes {:.0f} % longer", uneven, plan.stages, 100 * by);
}

void PlantCheckpoint(SlowDraft* draft) {
  AnyLayout(draft);
  const int rank = draft->AnyRank(), every = 8 + draft->dice.Below(13), first = every + draft->dice.Below(every);
  const double longest = draft->Share(0.9, 3) * draft->plan.step_s;
  const Chance chance(draft->plan.seed ^ 0xc);
  draft->plan.pause = [=](int one, int step) {
    const bool now = one == rank && step >= first && (step - first) % every == 0;
    return now ? longest * (0.8 + 0.2 * chance.Unit(1, static_cast<std::uint64_t>(step))) : 0;
  };
  draft->Answer("straggler", {rank}, first);
  draft->truth.story = fmt::format("rank {} stops for {:.1f} s in every {}th step", rank, longest, every);
}

void PlantLoader(SlowDraft* draft) {
  AnyLayout(draft);
  const int rank = draft->AnyRank(), onset = draft->AnyOnset();
  const double often = draft->Share(0.3, 0.95), longest = draft->Share(0.3, 0.8) * draft->plan.step_s;
  const Chance chance(draft->plan.seed ^ 0xd);
  draft->plan.pause = [=](int one, int step) {
    const auto at = static_cast<std::uint64_t>(step);
    if (one != rank || step < onset || chance.Unit(1, at) > often) return 0.0;
    return longest * (0.2 + 0.8 * chance.Unit(2, at));
  };
  draft->Answer("straggler", {rank}, onset);
  draft->truth.story =
      fmt::format("rank {} waits for its input in {:.0f} % of the steps from {} on", rank, 100 * often, onset);
}

void PlantTwo(SlowDraft* draft) {
  AnyLayout(draft);
  const int first = 30 + draft->dice.Below(30), second = first + 40 + draft->dice.Below(30);
  const int rank = draft->AnyRank(), other = (rank + 1 + draft->dice.Below(draft->ranks - 1)) % draft->ranks;
  const double by = draft->Share(0.1, 0.3), also = draft->Share(0.1, 0.3);
  const auto one = OneRank(rank, first, by), two = OneRank(other, second, also);
  draft->plan.compute = [=](int r, int step) { return one(r, step) * two(r, step); };
  draft->Answer("straggler", {rank}, first);
  draft->Answer("straggler", {other}, second);
  draft->truth.story = fmt::format("rank {} takes {:.0f} % longer from step {} on, rank {} {:.0f} % from {} on", rank,
                                   100 * by, first, other, 100 * also, second);
}

void PlantChronic(SlowDraft* draft) {
  AnyLayout(draft);
  draft->plan.layout = Layout::kData;
  draft->plan.steps = 500;
  draft->plan.step_s = draft->Share(1, 6);  // a hundredth of which the clocks of two nodes can tell
  draft->times_every = 1;
  const int rank = draft->AnyRank();
  draft->plan.compute = OneRank(rank, 0, 0.01);
  draft->Answer("straggler", {rank}, -1);
  draft->truth.story = fmt::format("rank {} takes 1 % longer all the time", rank);
}

void PlantAllSlower(SlowDraft* draft) {
  AnyLayout(draft);
  const int onset = draft->AnyOnset();
  const double by = draft->Share(0.1, 0.4);
  draft->plan.on_host = false;
  // Of what is not timed nobody knows which part grows.
  const bool timed = !draft->dice.OneIn(3);
  if (!timed) draft->times_every = 0;
  draft->plan.compute = [=](int, int step) { return step >= onset ? 1 + by : 1.0; };
  draft->Answer(timed ? "slow_compute" : "regression", {}, onset);
  draft->truth.story = fmt::format("all ranks take {:.0f} % longer from step {} on", 100 * by, onset);
}

struct SlowFault {
  const char* name;
  void (*plant)(SlowDraft* draft);
  int fewest_nodes = 1;
};
constexpr SlowFault kFaults[] = {
    {"straggler", PlantStraggler},
    {"hot_gpu", PlantHeat},
    {"noisy_neighbour", PlantNeighbour},
    {"uneven_experts", PlantExperts},
    {"bubble", PlantBubble},
    {"checkpoint", PlantCheckpoint},
    {"starved_loader", PlantLoader},
    {"two_stragglers", PlantTwo},
    {"straggler_and_switch", PlantStragglerAndSwitch, 4},
    {"chronic", PlantChronic},
    {"switch", PlantSwitch, 4},
    {"nic", PlantAdapter, 4},
    {"pair", PlantPairOfHosts, 4},
    {"whole_switch", PlantWholeSwitch, 4},
    {"network", PlantNetwork, 4},
    {"all_slower", PlantAllSlower},
};

const SlowFault* SlowFaultOf(const std::string& name) {
  for (const SlowFault& fault : kFaults)
    if (name == fault.name) return &fault;
  return nullptr;
}

int NodeSize(int ranks) { return ranks <= 16 ? 4 : 8; }

SlowDraft BeginDraft(int ranks, std::uint64_t seed) {
  SlowDraft draft;
  draft.ranks = ranks;
  draft.per_node = NodeSize(ranks);
  draft.dice = Dice(seed, 0x510b);
  SlowPlan& plan = draft.plan;
  plan.seed = seed;
  plan.steps = kSlowSteps;
  plan.per_group = draft.per_node;
  plan.leaf_nodes = LeafNodes(ranks);
  plan.step_s = draft.Share(0.2, 6);
  constexpr std::uint32_t kEvery[] = {1, 1, 2, 4};
  draft.times_every = draft.dice.Of(kEvery, 4);
  return draft;
}

void Run(const SlowDraft& draft, Generated* made) {
  MakeSlowJob(draft.plan, draft.ranks, draft.per_node, &made->job);
  made->job.times_every = draft.times_every;
  made->job.starts = Job::Starts::kNone;
  made->world = std::make_unique<World>(made->job);
  made->world->Run();
  made->now = made->world->ended() - kMilli;
}

}  // namespace

int LeafNodes(int ranks) {
  const int nodes = ranks / NodeSize(ranks);
  return nodes >= 4 ? std::max(2, nodes / 4) : 1;
}

const std::vector<std::string>& SlowFaults() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const SlowFault& fault : kFaults) all.emplace_back(fault.name);
    return all;
  }();
  return names;
}

bool GenerateSlow(const SlowShape& shape, Generated* made, SlowTruth* truth) {
  const bool healthy = shape.fault == "healthy";
  const SlowFault* const fault = SlowFaultOf(healthy ? shape.like : shape.fault);
  SlowDraft draft = BeginDraft(shape.ranks, Scramble(shape.seed) ^ static_cast<std::uint64_t>(shape.ranks));
  if (fault == nullptr || shape.ranks / draft.per_node < fault->fewest_nodes) return false;
  fault->plant(&draft);
  if (healthy) {
    draft.plan.compute = draft.plan.pause = nullptr;
    draft.plan.link = nullptr;
    draft.plan.batches = 6 * draft.plan.stages;
    draft.truth = {{}, "nothing"};
  }
  Run(draft, made);
  *truth = draft.truth;
  return true;
}

void GenerateQuiet(int ranks, std::int64_t seconds, std::uint64_t seed, Generated* made) {
  SlowDraft draft = BeginDraft(ranks, Scramble(seed));
  SlowPlan& plan = draft.plan;
  Dice& dice = draft.dice;
  AnyLayout(&draft);
  plan.step_s = draft.Share(2, 10);
  plan.steps = static_cast<int>(static_cast<double>(seconds) / plan.step_s);
  const bool varying = dice.OneIn(3), growing = !varying && dice.OneIn(3), lighter = dice.OneIn(4);
  const int warm_up = dice.OneIn(2) ? 10 + dice.Below(40) : 0, evaluates = 20 + dice.Below(180);
  const int saves = 50 + dice.Below(200), grows = 60 + dice.Below(200);
  const double save_s = draft.Share(0.5, 5) * plan.step_s, pauses = 0.002 * dice.Unit();
  const Chance chance(seed ^ 0x9);
  plan.compute = [=](int rank, int step) {
    const auto r = static_cast<std::uint64_t>(rank), at = static_cast<std::uint64_t>(step);
    double factor = step <= warm_up ? 3 - 2.0 * step / warm_up : 1;
    if (varying) factor *= 0.4 + 0.6 * chance.Unit(1, r, at);  // each rank has a batch of its own
    if (lighter && step % 4 != 0) factor *= 0.8;               // without the optimizer
    return factor;
  };
  plan.pause = [=](int rank, int step) {
    const auto r = static_cast<std::uint64_t>(rank), at = static_cast<std::uint64_t>(step);
    double pause = step % saves == 0 ? save_s * (0.9 + 0.2 * chance.Unit(2, r, at)) : 0;  // all save their part
    if (chance.Unit(3, r, at) < pauses) pause += 2 * chance.Unit(4, r, at);
    return pause;
  };
  if (growing) {
    plan.layout = Layout::kTensor;  // its calls say how long the sequences are
    plan.size = [=](int step) { return step < grows ? 1 : step < 2 * grows ? 1.5 : 2.0; };
  }
  plan.evaluations = [=](int step) { return step % evaluates == 0 ? 2 + step % 5 : 0; };
  Run(draft, made);
}

}  // namespace ncclwatch::jobs
