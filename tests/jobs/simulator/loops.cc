#include "tests/jobs/simulator/loops.h"

#include <algorithm>
#include <utility>

#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

constexpr int kSteps = 120, kRanks = 16;

// Gradients of several batches are added up and reduced once; with `gathers`, weights are gathered for each of them.
class Accumulation : public Topology {
 public:
  Accumulation(int batches, bool gathers) : batches_(batches), gathers_(gathers) {}
  void Step(int, int, Ops* ops) const override {
    Writer writer(ops);
    for (int batch = 0; batch < batches_; ++batch)
      for (std::uint64_t layer = 0; layer < 3; ++layer) {
        if (gathers_) writer.Collective(Function::ncclAllGather, 0, 4096 + layer, kBfloat16, kCompute);
        writer.Kernel(kCompute, kMilli);
      }
    for (std::uint64_t layer = 0; layer < 3; ++layer)
      gathers_ ? writer.Collective(Function::ncclReduceScatter, 0, 4096 + layer, kBfloat16, kCompute, kAverage)
               : writer.AllReduce(0, 65536 + layer, kFloat32, kCompute);
  }

 private:
  int batches_;
  bool gathers_;
};

// Every `every` steps batches without gradients, whose losses are reduced; figures are logged at another rhythm.
class Evaluation : public Topology {
 public:
  Evaluation(int every, int batches) : every_(every), batches_(batches) {}
  void Step(int, int step, Ops* ops) const override {
    Writer writer(ops);
    for (int batch = 0; step % every_ == 0 && batch < batches_; ++batch) {
      writer.Kernel(kCompute, kMilli);
      writer.AllReduce(0, 8, kFloat32, kCompute);
    }
    for (std::uint64_t bucket = 0; bucket < 4; ++bucket) {
      writer.Kernel(kCompute, kMilli);
      writer.AllReduce(0, 65536 + bucket, kFloat32, kCompute);
    }
  }

 private:
  int every_, batches_;
};

// Two models with a loss each; the discriminator may be trained several times for each time of the generator.
class Gan : public Topology {
 public:
  explicit Gan(int critics) : critics_(critics) {}
  void Step(int, int, Ops* ops) const override {
    Writer writer(ops);
    for (int i = 0; i < critics_; ++i) Train(30000, &writer);
    Train(70000, &writer);
  }

 private:
  static void Train(std::uint64_t count, Writer* writer) {
    for (std::uint64_t bucket = 0; bucket < 2; ++bucket) {
      writer->Kernel(kCompute, kMilli);
      writer->AllReduce(0, count + bucket, kFloat32, kCompute);
    }
    writer->AllReduce(0, 1, kFloat32, kCompute);
  }
  int critics_;
};

std::unique_ptr<Topology> MakeAccumulation(Job*, std::uint64_t seed) {
  return std::make_unique<Accumulation>(2 + static_cast<int>(seed % 7), false);
}
std::unique_ptr<Topology> MakeShardedAccumulation(Job*, std::uint64_t seed) {
  return std::make_unique<Accumulation>(2 + static_cast<int>(seed % 7), true);
}
std::unique_ptr<Topology> MakeEvaluation(Job*, std::uint64_t seed) {
  return std::make_unique<Evaluation>(5 + static_cast<int>(seed % 20), 4 + static_cast<int>(seed % 11));
}
std::unique_ptr<Topology> MakeGan(Job*, std::uint64_t seed) {
  return std::make_unique<Gan>(1 + static_cast<int>(seed % 3));
}

struct Loop {
  const char* name;
  std::unique_ptr<Topology> (*make)(Job* job, std::uint64_t seed);
};
constexpr Loop kLoops[] = {
    {"data parallel", MakeDataParallel},
    {"gradient accumulation", MakeAccumulation},
    {"sharded, accumulation", MakeShardedAccumulation},
    {"evaluation every N", MakeEvaluation},
    {"GAN, two losses", MakeGan},
    {"pipeline", MakePipeline},
    {"interleaved pipeline", MakeInterleaved},
    {"mixture of experts", MakeExpertParallel},
    {"tensor parallel", MakeTensorParallel},
    {"sharded", MakeSharded},
    {"context parallel", MakeContextParallel},
    {"everything at once", MakeMixed},
};

}  // namespace

const std::vector<std::string>& LoopNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Loop& loop : kLoops) all.emplace_back(loop.name);
    return all;
  }();
  return names;
}

bool GenerateLoop(const std::string& name, std::uint64_t seed, Generated* made) {
  const auto loop =
      std::find_if(std::begin(kLoops), std::end(kLoops), [&](const Loop& one) { return name == one.name; });
  if (loop == std::end(kLoops)) return false;
  Job& job = made->job;
  if (!MakeHealthy({.topology = "data", .ranks = kRanks, .steps = kSteps, .seed = seed}, &job)) return false;
  job.ring = 16384;
  job.topology = loop->make(&job, seed);
  made->world = std::make_unique<World>(job);
  made->world->Run();
  made->now = made->world->ended() + kSecond;
  return true;
}

}  // namespace ncclwatch::jobs
