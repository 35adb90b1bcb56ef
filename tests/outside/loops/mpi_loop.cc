// A training loop on CPUs over MPI: data-parallel, or a pipeline with a stage on each rank (--micro-batches N).
#include <mpi.h>

#include <cstdlib>
#include <vector>

#include "work.h"

using loops::Options;
using loops::Work;

namespace {

struct Trainer {
  const Options& options;
  Work& work;
  int rank = 0, size = 1;
  std::vector<float> gradient, activation;
  std::vector<char> batch, state;

  void AverageGradient(double backward_ms) {
    const int buckets = static_cast<int>(options["buckets"]), count = static_cast<int>(gradient.size()) / buckets;
    std::vector<MPI_Request> requests;
    for (int i = 0; i < buckets; ++i) {
      work.Compute(backward_ms / buckets);
      float* bucket = gradient.data() + static_cast<ptrdiff_t>(i) * count;
      if (options["overlap"] > 0) {
        requests.emplace_back();
        MPI_Iallreduce(MPI_IN_PLACE, bucket, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests.back());
      } else {
        MPI_Allreduce(MPI_IN_PLACE, bucket, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }

  void Evaluate() {
    double correct = 0;
    for (int i = 0; i < 4; ++i) work.Compute(work.StepMs() / 3);
    MPI_Allreduce(MPI_IN_PLACE, &correct, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }

  void DataParallelStep() {
    work.ReadBatch(&batch);
    work.BeLate();
    work.Compute(work.StepMs() * 0.3);
    AverageGradient(work.StepMs() * 0.65);
    work.Compute(work.StepMs() * 0.05);
    if (work.Every("evaluate-every")) Evaluate();
    if (work.Every("checkpoint-every")) {
      if (rank == static_cast<int>(options["writer"])) work.Checkpoint(state);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }

  // All forward passes, then all backward passes.
  void PipelineStep() {
    const int micro_batches = static_cast<int>(options["micro-batches"]), count = static_cast<int>(activation.size());
    const double ms = work.StepMs() / micro_batches;
    for (int i = 0; i < micro_batches; ++i) {
      if (rank > 0) MPI_Recv(activation.data(), count, MPI_FLOAT, rank - 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      work.Compute(ms * 0.35);
      if (rank < size - 1) MPI_Send(activation.data(), count, MPI_FLOAT, rank + 1, i, MPI_COMM_WORLD);
    }
    for (int i = 0; i < micro_batches; ++i) {
      if (rank < size - 1)
        MPI_Recv(activation.data(), count, MPI_FLOAT, rank + 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      work.Compute(ms * 0.65);
      if (rank > 0) MPI_Send(activation.data(), count, MPI_FLOAT, rank - 1, i, MPI_COMM_WORLD);
    }
    double norm = 1;
    MPI_Allreduce(MPI_IN_PLACE, &norm, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  Work work(options, rank ? std::atoi(rank) : 0);  // its helpers are forked before MPI starts
  MPI_Init(&argc, &argv);
  Trainer trainer{options, work};
  MPI_Comm_rank(MPI_COMM_WORLD, &trainer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &trainer.size);
  trainer.gradient.resize(static_cast<size_t>(options["count"]));
  trainer.activation.resize(static_cast<size_t>(options["count"]));
  trainer.batch.resize(static_cast<size_t>(options["batch"]));
  trainer.state.resize(static_cast<size_t>(options["state"]));
  for (long step = 0; step < static_cast<long>(options["steps"]); ++step) {
    work.BeginStep(step);
    options["micro-batches"] > 0 ? trainer.PipelineStep() : trainer.DataParallelStep();
  }
  MPI_Finalize();
  return 0;
}
