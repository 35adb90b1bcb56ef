// Everything at once, as large models are trained: tensor parallel within, pipeline over, data and expert parallel
// across, six or seven communicators a rank, on three streams.
#include <algorithm>

#include "simulation/chance.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::uint64_t kMixedActivation = 24576;

struct MixedSizes {
  int tensor = 2, stages = 2, replicas = 2, experts = 2;
};

// rank = (stage * replicas + replica) * tensor + place: Megatron's order, with tensor innermost.
MixedSizes SizesOf(int ranks, std::uint64_t seed) {
  MixedSizes sizes;
  if (ranks >= 32 && ranks % 32 == 0 && seed % 2 == 0) sizes.tensor = 4;
  if (ranks >= 32 && ranks % 32 == 0 && seed % 3 == 0) sizes.stages = 4;
  sizes.replicas = ranks / sizes.tensor / sizes.stages;
  if (sizes.replicas % 4 == 0 && seed % 5 < 3) sizes.experts = 4;
  if (sizes.replicas % sizes.experts != 0) sizes.experts = sizes.replicas;
  return sizes;
}

class Mixed : public Topology {
 public:
  Mixed(const Job& job, const MixedSizes& sizes, std::uint64_t seed)
      : job_(job), sizes_(sizes), batches_(sizes.stages + 1) {
    widened_ = seed % 2 == 0;
  }

  void Step(int rank, int, Ops* ops) const override {
    Writer writer(ops);
    const int pipeline = job_.CommOf(rank, "pipeline");
    const int stage = job_.comms[static_cast<std::size_t>(pipeline)].RankOf(rank);
    const int warm = std::min(sizes_.stages - stage - 1, batches_), steady = batches_ - warm;
    for (int i = 0; i < warm; ++i) {
      Pass(pipeline, -1, stage - 1, &writer);
      Compute(rank, &writer);
      Pass(pipeline, Next(stage), -1, &writer);
    }
    if (steady > 0) Pass(pipeline, -1, stage - 1, &writer);
    for (int i = 0; i < steady; ++i) {
      Compute(rank, &writer);
      Pass(pipeline, Next(stage), Next(stage), &writer);
      Compute(rank, &writer);
      Pass(pipeline, stage - 1, i + 1 < steady ? stage - 1 : -1, &writer);
    }
    for (int i = 0; i < warm; ++i) {
      Pass(pipeline, -1, Next(stage), &writer);
      Compute(rank, &writer);
      Pass(pipeline, stage - 1, -1, &writer);
    }
    Reduce(rank, stage, &writer);
  }

 private:
  int Next(int stage) const { return stage + 1 < sizes_.stages ? stage + 1 : -1; }

  // A layer: attention over the tensor group, then the experts.
  void Compute(int rank, Writer* writer) const {
    const int tensor = job_.CommOf(rank, "tensor"), expert = job_.CommOf(rank, "expert");
    writer->Kernel(kCompute, 300 * kMicro);
    writer->AllReduce(tensor, 16384, kBfloat16, kCompute);
    writer->Collective(Function::ncclAlltoAll, expert, 2048, kBfloat16, kCompute);
    writer->Kernel(kCompute, 300 * kMicro);
    writer->Collective(Function::ncclAlltoAll, expert, 2048, kBfloat16, kCompute);
    if (widened_) writer->AllReduce(tensor, 8192, kBfloat16, kCompute);
  }

  // Gradients, those that the first and the last stage share, and the norm over everything but the replicas.
  void Reduce(int rank, int stage, Writer* writer) const {
    writer->Wait(kAside, kCompute);
    writer->Collective(Function::ncclReduceScatter, job_.CommOf(rank, "data"),
                       30000 + static_cast<std::uint64_t>(stage), kFloat32, kAside, kSum);
    if (const int shared = job_.CommOf(rank, "embedding"); shared >= 0)
      writer->AllReduce(shared, 50000, kFloat32, kCompute);
    writer->Wait(kCompute, kAside);
    writer->AllReduce(job_.CommOf(rank, "model"), 1, kFloat32, kCompute);
    writer->Collective(Function::ncclAllGather, job_.CommOf(rank, "data"), 15000 + static_cast<std::uint64_t>(stage),
                       kBfloat16, kCompute);
  }

  static void Pass(int comm, int to, int from, Writer* writer) {
    if (to < 0 && from < 0) return;
    writer->Wait(kPipe, kCompute);
    if (to >= 0 && from >= 0) writer->GroupStart();
    if (to >= 0) writer->Send(comm, to, kMixedActivation, kPipe);
    if (from >= 0) writer->Recv(comm, from, kMixedActivation, kPipe);
    if (to >= 0 && from >= 0) writer->GroupEnd();
    writer->Wait(kCompute, kPipe);
  }

  const Job& job_;
  MixedSizes sizes_;
  int batches_;
  bool widened_;
};

using Groups = std::vector<std::vector<int>>;

// Ranks that agree in everything that `key` says.
template <typename Key>
Groups By(int ranks, int count, Key key) {
  Groups groups(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) groups[static_cast<std::size_t>(key(rank))].push_back(rank);
  return groups;
}

}  // namespace

std::unique_ptr<Topology> MakeMixed(Job* job, std::uint64_t seed) {
  const int ranks = job->shape.ranks;
  const MixedSizes sizes = SizesOf(ranks, seed);
  const int layer = sizes.tensor * sizes.replicas;  // ranks of one stage
  const auto place = [&](int rank) { return rank % sizes.tensor; };
  const auto stage = [&](int rank) { return rank / layer; };
  const auto replica = [&](int rank) { return rank / sizes.tensor % sizes.replicas; };
  job->AddAll(Blocks(ranks, sizes.tensor), "tensor");
  job->AddAll(By(ranks, layer, [&](int rank) { return rank % layer; }), "pipeline");
  job->AddAll(
      By(ranks, sizes.stages * sizes.tensor, [&](int rank) { return stage(rank) * sizes.tensor + place(rank); }),
      "data");
  const int teams = sizes.replicas / sizes.experts;
  job->AddAll(
      By(ranks, sizes.stages * sizes.tensor * teams,
         [&](int rank) { return (stage(rank) * sizes.tensor + place(rank)) * teams + replica(rank) / sizes.experts; }),
      "expert");
  job->AddAll(By(ranks, sizes.replicas, replica), "model");
  if (!job->by_split) {  // else those of the stages between would have to take part without a colour
    for (const std::vector<int>& chain : By(ranks, layer, [&](int rank) { return rank % layer; }))
      job->Add({.members = {chain.front(), chain.back()}, .label = "embedding"});
  }
  return std::make_unique<Mixed>(*job, sizes, seed);
}

}  // namespace ncclwatch::jobs
