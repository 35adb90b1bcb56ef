// Topologies that send: pipelines (1F1B, and interleaved with two chunks of the model a stage), context parallel (a
// ring), expert parallel (all to all).
#include <algorithm>

#include "simulation/chance.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::uint64_t kMessageActivation = 40960;

class Pipeline : public Topology {
 public:
  Pipeline(const Job& job, int stages, std::uint64_t seed)
      : job_(job), stages_(stages), batches_(stages * (1 + static_cast<int>(seed % 2))) {}
  void Step(int rank, int, Ops* ops) const override {
    Writer writer(ops);
    const int comm = job_.CommOf(rank, "pipeline");
    const int stage = job_.comms[static_cast<std::size_t>(comm)].RankOf(rank);
    const int warm = std::min(stages_ - stage - 1, batches_), steady = batches_ - warm;
    for (int i = 0; i < warm; ++i) {
      Pass(comm, -1, Previous(stage), &writer);
      writer.Kernel(kCompute, 500 * kMicro);
      Pass(comm, Next(stage), -1, &writer);
    }
    if (steady > 0) Pass(comm, -1, Previous(stage), &writer);
    for (int i = 0; i < steady; ++i) {
      writer.Kernel(kCompute, 500 * kMicro);
      Pass(comm, Next(stage), Next(stage), &writer);
      writer.Kernel(kCompute, kMilli);
      Pass(comm, Previous(stage), i + 1 < steady ? Previous(stage) : -1, &writer);
    }
    for (int i = 0; i < warm; ++i) {
      Pass(comm, -1, Next(stage), &writer);
      writer.Kernel(kCompute, kMilli);
      Pass(comm, Previous(stage), -1, &writer);
    }
    writer.Wait(kAside, kCompute);
    writer.AllReduce(job_.CommOf(rank, "data"), 70000 + static_cast<std::uint64_t>(stage), kFloat32, kAside);
    writer.Wait(kCompute, kAside);
  }

 private:
  int Next(int stage) const { return stage + 1 < stages_ ? stage + 1 : -1; }
  static int Previous(int stage) { return stage - 1; }
  // Both in one group.
  static void Pass(int comm, int to, int from, Writer* writer) {
    if (to < 0 && from < 0) return;
    writer->Wait(kPipe, kCompute);
    if (to >= 0 && from >= 0) writer->GroupStart();
    if (to >= 0) writer->Send(comm, to, kMessageActivation, kPipe);
    if (from >= 0) writer->Recv(comm, from, kMessageActivation, kPipe);
    if (to >= 0 && from >= 0) writer->GroupEnd();
    writer->Wait(kCompute, kPipe);
  }

  const Job& job_;
  int stages_, batches_;
};

// Units of work go round the ring of stages twice. In every slot of time each stage works on one unit, then all pass on
// what they have.
class Interleaved : public Topology {
 public:
  Interleaved(const Job& job, int stages) : job_(job), stages_(stages), units_(2 * stages) {}
  void Step(int rank, int, Ops* ops) const override {
    Writer writer(ops);
    const int comm = job_.CommOf(rank, "pipeline");
    const int stage = job_.comms[static_cast<std::size_t>(comm)].RankOf(rank);
    for (const bool forward : {true, false})
      for (int slot = 0; slot < units_ + stages_ - 1; ++slot) Slot(comm, stage, slot, forward, &writer);
    writer.AllReduce(job_.CommOf(rank, "data"), 90000 + static_cast<std::uint64_t>(stage), kBfloat16, kCompute);
  }

 private:
  void Slot(int comm, int stage, int slot, bool forward, Writer* writer) const {
    const int place = forward ? stage : stages_ - 1 - stage;  // along the way of this direction
    const int now = slot - place, next = slot + 1 - place;
    const bool works = now >= 0 && now < units_, will = next >= 0 && next < units_;
    const int after = (stage + (forward ? 1 : stages_ - 1)) % stages_;
    const int before = (stage + (forward ? stages_ - 1 : 1)) % stages_;
    const bool sends = works && (place + 1 < stages_ || now < stages_);
    const bool receives = will && (place > 0 || next >= stages_);
    if (works) writer->Kernel(kCompute, 400 * kMicro);
    if (!sends && !receives) return;
    writer->Wait(kPipe, kCompute);
    writer->GroupStart();
    if (sends) writer->Send(comm, after, kMessageActivation, kPipe);
    if (receives) writer->Recv(comm, before, kMessageActivation, kPipe);
    writer->GroupEnd();
    writer->Wait(kCompute, kPipe);
  }

  const Job& job_;
  int stages_, units_;
};

class ContextParallel : public Topology {
 public:
  explicit ContextParallel(const Job& job) : job_(job) {}
  void Step(int rank, int, Ops* ops) const override {
    Writer writer(ops);
    const int comm = job_.CommOf(rank, "context");
    const Comm& ring = job_.comms[static_cast<std::size_t>(comm)];
    const int own = ring.RankOf(rank), size = ring.size();
    for (int layer = 0; layer < 2; ++layer) {
      for (int turn = 1; turn < size; ++turn) {
        writer.Wait(kPipe, kCompute);
        writer.GroupStart();
        writer.Send(comm, (own + 1) % size, 20480, kPipe);
        writer.Recv(comm, (own + size - 1) % size, 20480, kPipe);
        writer.GroupEnd();
        writer.Kernel(kCompute, 500 * kMicro);
        writer.Wait(kCompute, kPipe);
      }
      writer.Collective(Function::ncclReduceScatter, comm, 30000 + static_cast<std::uint64_t>(layer), kBfloat16,
                        kCompute, kSum);
    }
    writer.Wait(kAside, kCompute);
    writer.AllReduce(job_.CommOf(rank, "data"), 123456, kFloat32, kAside);
    writer.Wait(kCompute, kAside);
  }

 private:
  const Job& job_;
};

// Tokens go to the experts and back: one group of sends and receives with everybody, or ncclAlltoAll.
class ExpertParallel : public Topology {
 public:
  ExpertParallel(const Job& job, std::uint64_t seed) : job_(job), chance_(seed), spelled_out_(seed % 3 != 0) {}
  void Step(int rank, int step, Ops* ops) const override {
    Writer writer(ops);
    const int comm = job_.CommOf(rank, "expert");
    for (int layer = 0; layer < 2; ++layer) {
      writer.Kernel(kCompute, 500 * kMicro);
      AllToAll(rank, comm, step * 4 + layer, false, &writer);
      writer.Kernel(kCompute, 500 * kMicro);
      AllToAll(rank, comm, step * 4 + layer, true, &writer);
    }
    writer.AllReduce(job_.CommOf(rank, "data"), 81000, kFloat32, kCompute);
    writer.AllReduce(0, 5000, kFloat32, kCompute);
  }

 private:
  void AllToAll(int rank, int comm, int round, bool back, Writer* writer) const {
    const Comm& experts = job_.comms[static_cast<std::size_t>(comm)];
    if (!spelled_out_) {
      return writer->Collective(Function::ncclAlltoAll, comm, 4096 + static_cast<std::uint64_t>(round), kBfloat16,
                                kCompute);
    }
    const int own = experts.RankOf(rank);
    writer->GroupStart();
    for (int peer = 0; peer < experts.size(); ++peer) {
      const std::uint64_t to = Tokens(round, own, peer), from = Tokens(round, peer, own);
      writer->Send(comm, peer, back ? from : to, kCompute);
      writer->Recv(comm, peer, back ? to : from, kCompute);
    }
    writer->GroupEnd();
  }
  // Some experts get nothing.
  std::uint64_t Tokens(int round, int from, int to) const {
    const std::uint64_t bits = chance_.Bits(0xe9e, static_cast<std::uint64_t>(round),
                                            static_cast<std::uint64_t>(from) << 16 | static_cast<std::uint64_t>(to));
    return bits % 16 == 0 ? 0 : bits % 4000 * 64;
  }

  const Job& job_;
  Chance chance_;
  bool spelled_out_;
};

}  // namespace

std::unique_ptr<Topology> MakePipeline(Job* job, std::uint64_t seed) {
  const int stages = GroupSize(job->shape.ranks, seed);
  job->AddAll(Strides(job->shape.ranks, stages), "pipeline");
  job->AddAll(Blocks(job->shape.ranks, job->shape.ranks / stages), "data");
  return std::make_unique<Pipeline>(*job, stages, seed);
}

std::unique_ptr<Topology> MakeInterleaved(Job* job, std::uint64_t seed) {
  const int stages = GroupSize(job->shape.ranks, seed);
  job->AddAll(Strides(job->shape.ranks, stages), "pipeline");
  job->AddAll(Blocks(job->shape.ranks, job->shape.ranks / stages), "data");
  return std::make_unique<Interleaved>(*job, stages);
}

std::unique_ptr<Topology> MakeContextParallel(Job* job, std::uint64_t seed) {
  const int size = GroupSize(job->shape.ranks, seed);
  job->AddAll(Blocks(job->shape.ranks, size), "context");
  job->AddAll(Strides(job->shape.ranks, job->shape.ranks / size), "data");
  return std::make_unique<ContextParallel>(*job);
}

std::unique_ptr<Topology> MakeExpertParallel(Job* job, std::uint64_t seed) {
  const int size = GroupSize(job->shape.ranks, seed);
  job->AddAll(Blocks(job->shape.ranks, size), "expert");
  job->AddAll(Strides(job->shape.ranks, job->shape.ranks / size), "data");
  return std::make_unique<ExpertParallel>(*job, seed);
}

}  // namespace ncclwatch::jobs
