#include "tests/jobs/simulator/slow_plan.h"

#include <algorithm>
#include <utility>

#include "simulation/chance.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::uint64_t kBucket = 4 << 20, kHidden = 1 << 18, kActivation = 1 << 17;

class SlowTopology : public Topology {
 public:
  SlowTopology(const Job& job, const SlowPlan& plan) : job_(job), plan_(plan), chance_(plan.seed ^ 0x510) {
    costs_.gpu_byte_ns = plan.bucket_share * plan.step_s * kSecond / static_cast<double>(2 * kBucket * sizeof(float));
  }
  const Costs* costs() const { return &costs_; }

  void Step(int rank, int step, Ops* ops) const override {
    Writer writer(ops);
    if (plan_.pause)
      if (const auto ns = static_cast<std::int64_t>(plan_.pause(rank, step) * kSecond); ns > 0) Work(ns, &writer);
    int slice = 0;
    const int batches = plan_.evaluations ? plan_.evaluations(step) : 0;
    for (int batch = 0; batch < batches; ++batch) {
      Compute(rank, step, 0.3, &slice, &writer);
      if (plan_.layout == Layout::kTensor) Reduce(rank, step, "group", Sized(kHidden, step), kCompute, &slice, &writer);
    }
    if (batches > 0) Put(0, step, 3, kCompute, &slice, &writer);  // figures of the evaluation
    switch (plan_.layout) {
      case Layout::kData: Data(rank, step, &slice, &writer); break;
      case Layout::kTensor: Tensor(rank, step, &slice, &writer); break;
      case Layout::kExperts: Experts(rank, step, &slice, &writer); break;
      case Layout::kLeaves: Leaves(rank, step, &slice, &writer); break;
      case Layout::kPipeline: Pipeline(rank, step, &slice, &writer); break;
      case Layout::kNeighbours:
        Neighbours(rank, step, &writer);
        Leaves(rank, step, &slice, &writer);
        break;
    }
  }

 private:
  std::uint64_t Sized(std::uint64_t count, int step) const {
    return plan_.size ? static_cast<std::uint64_t>(static_cast<double>(count) * plan_.size(step)) : count;
  }
  static void Work(std::int64_t ns, Writer* writer) {
    // Long ones have no jitter of the simulation's own.
    writer->Put({.what = Do::kWork, .before_ns = ns, .ns = 0});
  }

  // A share of the step's computation.
  void Compute(int rank, int step, double share, int* slice, Writer* writer) const {
    const auto at = static_cast<std::uint64_t>(step) << 16 | static_cast<std::uint64_t>(++*slice);
    const double chance = 1 + plan_.jitter * (2 * chance_.Unit(1, static_cast<std::uint64_t>(rank), at) - 1);
    double factor = chance * (plan_.compute ? plan_.compute(rank, step) : 1);
    if (plan_.size) factor *= plan_.size(step);
    const auto ns = static_cast<std::int64_t>(share * factor * plan_.step_s * kSecond);
    plan_.on_host ? Work(ns, writer) : writer->Kernel(kCompute, ns);
  }

  // The network is as fast for all members of one call.
  void Put(int comm, int step, std::uint64_t count, std::uint8_t stream, int* slice, Writer* writer) const {
    const auto at = static_cast<std::uint64_t>(step) << 16 | static_cast<std::uint64_t>(++*slice);
    double longer = 1 + plan_.jitter * (2 * chance_.Unit(2, static_cast<std::uint64_t>(comm), at) - 1);
    if (plan_.link) longer *= plan_.link(job_.comms[static_cast<std::size_t>(comm)].members, step);
    writer->Put({.what = Do::kCall,
                 .stream = stream,
                 .dtype = kFloat32,
                 .reduction = kSum,
                 .comm = comm,
                 .function = Function::ncclAllReduce,
                 .count = count,
                 .longer = static_cast<float>(longer)});
  }
  void Reduce(int rank, int step, const char* label, std::uint64_t count, std::uint8_t stream, int* slice,
              Writer* writer) const {
    const int comm = job_.CommOf(rank, label);
    if (comm < 0 || job_.comms[static_cast<std::size_t>(comm)].size() < 2) return;
    Put(comm, step, count, stream, slice, writer);
  }

  void Data(int rank, int step, int* slice, Writer* writer) const {
    Compute(rank, step, 0.5, slice, writer);
    for (const std::uint64_t bucket : {kBucket, kBucket / 2}) {
      Compute(rank, step, 0.25, slice, writer);
      writer->Wait(kAside, kCompute);
      Put(0, step, bucket, kAside, slice, writer);
    }
    writer->Wait(kCompute, kAside);
  }

  void Tensor(int rank, int step, int* slice, Writer* writer) const {
    for (int layer = 0; layer < 4; ++layer) {
      Compute(rank, step, 0.25, slice, writer);
      Reduce(rank, step, "group", Sized(kHidden + static_cast<std::uint64_t>(layer % 2), step), kCompute, slice,
             writer);
    }
    writer->Wait(kAside, kCompute);
    Reduce(rank, step, "across", kBucket, kAside, slice, writer);
    writer->Wait(kCompute, kAside);
  }

  // Tokens go to the experts and back; each expert gets as many as come.
  void Experts(int rank, int step, int* slice, Writer* writer) const {
    const int comm = job_.CommOf(rank, "group");
    const int experts = job_.comms[static_cast<std::size_t>(comm)].size();
    for (int layer = 0; layer < 2; ++layer) {
      Compute(rank, step, 0.05, slice, writer);
      Exchange(comm, experts, step * 4 + layer, writer);
      Compute(rank, step, 0.4, slice, writer);
      Exchange(comm, experts, step * 4 + 2 + layer, writer);
    }
    Compute(rank, step, 0.1, slice, writer);
    writer->Wait(kAside, kCompute);
    Reduce(rank, step, "across", kBucket, kAside, slice, writer);
    writer->Wait(kCompute, kAside);
  }
  void Exchange(int comm, int experts, int round, Writer* writer) const {
    const auto tokens = 1000 + chance_.Bits(3, static_cast<std::uint64_t>(round)) % 500;
    writer->GroupStart();
    for (int peer = 0; peer < experts; ++peer) {
      writer->Send(comm, peer, tokens * 64, kCompute);
      writer->Recv(comm, peer, tokens * 64, kCompute);
    }
    writer->GroupEnd();
  }

  void Leaves(int rank, int step, int* slice, Writer* writer) const {
    Compute(rank, step, 0.6, slice, writer);
    Reduce(rank, step, "group", kBucket, kCompute, slice, writer);
    Compute(rank, step, 0.4, slice, writer);
    Reduce(rank, step, "leaf", kBucket, kCompute, slice, writer);
    Reduce(rank, step, "spine", kBucket / 4, kCompute, slice, writer);
  }

  // Every second node to the next one, and then the others.
  void Neighbours(int rank, int step, Writer* writer) const {
    const int nodes = job_.nodes(), node = job_.node_of(rank), place = rank % job_.per_node;
    for (const int odd : {0, 1}) {
      const bool sends = node % 2 == odd;
      const int other = (node + (sends ? 1 : nodes - 1)) % nodes * job_.per_node + place;
      const std::vector<int> ends = sends ? std::vector{rank, other} : std::vector{other, rank};
      const std::uint64_t at = static_cast<std::uint64_t>(step) << 1 | static_cast<std::uint64_t>(odd);
      double longer = 1 + plan_.jitter * (2 * chance_.Unit(4, static_cast<std::uint64_t>(ends.front()), at) - 1);
      if (plan_.link) longer *= plan_.link(ends, step);
      const int comm = job_.CommOf(rank, "across");
      writer->Put({.what = Do::kCall,
                   .stream = kCompute,
                   .dtype = kBfloat16,
                   .root = job_.comms[static_cast<std::size_t>(comm)].RankOf(other),
                   .comm = comm,
                   .function = sends ? Function::ncclSend : Function::ncclRecv,
                   .count = kBucket / 2,
                   .longer = static_cast<float>(longer)});
    }
  }

  // 1F1B: backward takes twice as long as forward.
  void Pipeline(int rank, int step, int* slice, Writer* writer) const {
    const int comm = job_.CommOf(rank, "pipeline");
    const int stage = job_.comms[static_cast<std::size_t>(comm)].RankOf(rank);
    const int last = plan_.stages - 1, batches = plan_.batches, warm = std::min(last - stage, batches);
    const double each = 1.0 / (3 * batches);
    const int next = stage < last ? stage + 1 : -1, previous = stage - 1;
    for (int i = 0; i < warm; ++i) {
      Pass(comm, -1, previous, writer);
      Compute(rank, step, each, slice, writer);
      Pass(comm, next, -1, writer);
    }
    const int steady = batches - warm;
    if (steady > 0) Pass(comm, -1, previous, writer);
    for (int i = 0; i < steady; ++i) {
      Compute(rank, step, each, slice, writer);
      Pass(comm, next, next, writer);
      Compute(rank, step, 2 * each, slice, writer);
      Pass(comm, previous, i + 1 < steady ? previous : -1, writer);
    }
    for (int i = 0; i < warm; ++i) {
      Pass(comm, -1, next, writer);
      Compute(rank, step, 2 * each, slice, writer);
      Pass(comm, previous, -1, writer);
    }
    Reduce(rank, step, "across", kBucket, kCompute, slice, writer);
  }
  static void Pass(int comm, int to, int from, Writer* writer) {
    if (to < 0 && from < 0) return;
    writer->Wait(kPipe, kCompute);
    const bool both = to >= 0 && from >= 0;
    if (both) writer->GroupStart();
    if (to >= 0) writer->Send(comm, to, kActivation, kPipe);
    if (from >= 0) writer->Recv(comm, from, kActivation, kPipe);
    if (both) writer->GroupEnd();
    writer->Wait(kCompute, kPipe);
  }

  const Job& job_;
  const SlowPlan plan_;
  Chance chance_;
  Costs costs_;
};

std::vector<std::vector<int>> Leaf(int ranks, int per_node, int leaf_nodes, bool spine) {
  const int nodes = ranks / per_node, leaves = nodes / leaf_nodes;
  std::vector<std::vector<int>> groups;
  for (int place = 0; place < per_node; ++place)
    for (int group = 0; group < (spine ? leaf_nodes : leaves); ++group) {
      std::vector<int>& own = groups.emplace_back();
      for (int node = 0; node < nodes; ++node)
        if ((spine ? node % leaf_nodes : node / leaf_nodes) == group) own.push_back(node * per_node + place);
    }
  return groups;
}

}  // namespace

void MakeSlowJob(const SlowPlan& plan, int ranks, int per_node, Job* job) {
  job->shape.topology = "slow";
  job->shape.ranks = job->ranks = ranks;
  job->shape.seed = job->seed = plan.seed;
  job->steps = plan.steps;
  job->per_node = per_node;
  job->jitter = 0.001;
  job->ring = 16384;
  job->comms_of.resize(static_cast<std::size_t>(ranks));
  std::vector<int> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  job->Add({.members = all, .label = "world"});
  switch (plan.layout) {
    case Layout::kData: break;
    case Layout::kTensor:
    case Layout::kExperts:
      job->AddAll(Blocks(ranks, plan.per_group), "group");
      job->AddAll(Strides(ranks, ranks / plan.per_group), "across");
      break;
    case Layout::kNeighbours: job->AddAll(Strides(ranks, ranks / per_node), "across"); [[fallthrough]];
    case Layout::kLeaves:
      job->AddAll(Blocks(ranks, per_node), "group");
      job->AddAll(Leaf(ranks, per_node, plan.leaf_nodes, false), "leaf");
      job->AddAll(Leaf(ranks, per_node, plan.leaf_nodes, true), "spine");
      break;
    case Layout::kPipeline:
      job->AddAll(Strides(ranks, plan.stages), "pipeline");
      job->AddAll(Blocks(ranks, ranks / plan.stages), "across");
      break;
  }
  auto topology = std::make_unique<SlowTopology>(*job, plan);
  job->costs = topology->costs();
  job->topology = std::move(topology);
}

}  // namespace ncclwatch::jobs
