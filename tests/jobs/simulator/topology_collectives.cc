// Topologies that only make collectives: data parallel, tensor parallel, fully sharded, hierarchical.
#include "simulation/chance.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

std::vector<std::uint64_t> Sizes(std::uint64_t seed, int count) {
  std::vector<std::uint64_t> sizes;
  Dice dice(seed, 0x512e5);
  for (int i = 0; i < count; ++i) sizes.push_back(static_cast<std::uint64_t>(dice.Between(1, 200) * 512 + i));
  return sizes;
}

// Buckets of gradients, reduced on a stream of their own while the next ones are computed.
void ReduceGradients(int comm, const std::vector<std::uint64_t>& buckets, std::uint8_t dtype, Writer* writer) {
  for (const std::uint64_t bucket : buckets) {
    writer->Kernel(kCompute, 400 * kMicro);
    writer->Wait(kAside, kCompute);
    writer->AllReduce(comm, bucket, dtype, kAside);
  }
  writer->Wait(kCompute, kAside);
}

class DataParallel : public Topology {
 public:
  explicit DataParallel(std::uint64_t seed)
      : buckets_(Sizes(seed, 3 + static_cast<int>(seed % 4))), dtype_(seed % 2 == 0 ? kBfloat16 : kFloat32) {}
  void Step(int, int, Ops* ops) const override {
    Writer writer(ops);
    writer.Work(kMilli);
    writer.Kernel(kCompute, 2 * kMilli);
    ReduceGradients(0, buckets_, dtype_, &writer);
  }

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint8_t dtype_;
};

class TensorParallel : public Topology {
 public:
  TensorParallel(const Job& job, std::uint64_t seed)
      : job_(job), hidden_(Sizes(seed, 2)), buckets_(Sizes(seed + 1, 2)), sequence_(seed % 2 == 0) {}
  void Step(int rank, int, Ops* ops) const override {
    Writer writer(ops);
    const int tensor = job_.CommOf(rank, "tensor");
    for (int half = 0; half < 4; ++half) {  // two layers, forward and backward
      writer.Kernel(kCompute, 600 * kMicro);
      Exchange(tensor, hidden_[0], &writer);
      writer.Kernel(kCompute, 600 * kMicro);
      Exchange(tensor, hidden_[1], &writer);
    }
    ReduceGradients(job_.CommOf(rank, "data"), buckets_, kFloat32, &writer);
  }

 private:
  void Exchange(int comm, std::uint64_t count, Writer* writer) const {
    if (!sequence_) return writer->AllReduce(comm, count, kBfloat16, kCompute);
    writer->Collective(Function::ncclAllGather, comm, count, kBfloat16, kCompute);
    writer->Collective(Function::ncclReduceScatter, comm, count, kBfloat16, kCompute, kSum);
  }

  const Job& job_;
  std::vector<std::uint64_t> hidden_, buckets_;
  bool sequence_;
};

// Fully sharded (ZeRO-3), or only the optimizer's state: each bucket is reduced to its owner and the owner's new
// weights are broadcast (ZeRO-1).
class Sharded : public Topology {
 public:
  Sharded(const Job& job, std::uint64_t seed)
      : layers_(Sizes(seed, 3)), ranks_(job.shape.ranks), owned_(seed % 3 == 0) {}
  void Step(int, int, Ops* ops) const override {
    Writer writer(ops);
    if (owned_) return Owned(&writer);
    for (const std::uint64_t layer : layers_) Gather(layer, &writer);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      Gather(*layer, &writer);
      writer.Wait(kPipe, kCompute);
      writer.Collective(Function::ncclReduceScatter, 0, *layer, kBfloat16, kPipe, kAverage);
    }
    writer.Wait(kCompute, kPipe);
  }

 private:
  void Owned(Writer* writer) const {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      writer->Kernel(kCompute, 600 * kMicro);
      writer->Wait(kPipe, kCompute);
      writer->Collective(Function::ncclReduce, 0, layers_[i], kFloat32, kPipe, kSum, Owner(i));
    }
    writer->Wait(kCompute, kPipe);
    for (std::size_t i = 0; i < layers_.size(); ++i)
      writer->Collective(Function::ncclBroadcast, 0, layers_[i], kBfloat16, kCompute, format::kNoReduction, Owner(i));
  }
  int Owner(std::size_t layer) const { return static_cast<int>(layer * 3 + 1) % ranks_; }
  static void Gather(std::uint64_t layer, Writer* writer) {
    writer->Collective(Function::ncclAllGather, 0, layer, kBfloat16, kAside);
    writer->Wait(kCompute, kAside);
    writer->Kernel(kCompute, 700 * kMicro);
  }

  std::vector<std::uint64_t> layers_;
  int ranks_;
  bool owned_;
};

// Sharded within a node, replicated over the nodes.
class Hierarchical : public Topology {
 public:
  Hierarchical(const Job& job, std::uint64_t seed) : job_(job), layers_(Sizes(seed, 3)) {}
  void Step(int rank, int, Ops* ops) const override {
    Writer writer(ops);
    const int node = job_.CommOf(rank, "node"), across = job_.CommOf(rank, "across");
    for (const std::uint64_t layer : layers_) {
      writer.Collective(Function::ncclAllGather, node, layer, kBfloat16, kAside);
      writer.Wait(kCompute, kAside);
      writer.Kernel(kCompute, 700 * kMicro);
    }
    for (const std::uint64_t layer : layers_) {
      writer.Kernel(kCompute, 700 * kMicro);
      writer.Wait(kAside, kCompute);
      writer.Collective(Function::ncclReduceScatter, node, layer, kFloat32, kAside, kSum);
      writer.AllReduce(across, layer, kFloat32, kAside);
    }
    writer.Wait(kCompute, kAside);
  }

 private:
  const Job& job_;
  std::vector<std::uint64_t> layers_;
};

}  // namespace

std::unique_ptr<Topology> MakeDataParallel(Job*, std::uint64_t seed) { return std::make_unique<DataParallel>(seed); }

std::unique_ptr<Topology> MakeTensorParallel(Job* job, std::uint64_t seed) {
  const int size = GroupSize(job->shape.ranks, seed);
  job->AddAll(Blocks(job->shape.ranks, size), "tensor");
  job->AddAll(Strides(job->shape.ranks, job->shape.ranks / size), "data");
  return std::make_unique<TensorParallel>(*job, seed);
}

std::unique_ptr<Topology> MakeSharded(Job* job, std::uint64_t seed) { return std::make_unique<Sharded>(*job, seed); }

std::unique_ptr<Topology> MakeHierarchical(Job* job, std::uint64_t seed) {
  job->per_node = job->shape.ranks < 16 ? job->shape.ranks / 2 : 8;
  job->AddAll(Blocks(job->shape.ranks, job->per_node), "node");
  job->AddAll(Strides(job->shape.ranks, job->shape.ranks / job->per_node), "across");
  return std::make_unique<Hierarchical>(*job, seed);
}

}  // namespace ncclwatch::jobs
