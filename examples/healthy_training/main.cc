// The honest loop: gradients averaged in two buckets on one stream, metrics gathered over a second communicator on
// another, a checkpoint on rank 0 at the end. Nothing is wrong here.
#include <cstdio>
#include <vector>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);

  ncclComm_t metrics;
  cudaStream_t side;
  float* all_metrics;
  NCCL_CHECK(ncclCommInitRank(&metrics, worker.size(), ShareUniqueId(worker.job(), 1), worker.rank()));
  CUDA_CHECK(cudaStreamCreate(&side));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&all_metrics), worker.size() * sizeof(float)));

  NCCL_CHECK(ncclBroadcast(worker.gradient(), worker.gradient(), worker.count(), ncclFloat32, 0, worker.communicator(),
                           worker.stream()));
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    const size_t bucket = worker.count() / 2;
    NCCL_CHECK(ncclGroupStart());
    NCCL_CHECK(ncclAllReduce(worker.gradient(), worker.gradient(), bucket, ncclFloat32, ncclAvg, worker.communicator(),
                             worker.stream()));
    NCCL_CHECK(ncclAllReduce(worker.gradient() + bucket, worker.gradient() + bucket, worker.count() - bucket,
                             ncclFloat32, ncclAvg, worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclGroupEnd());
    CUDA_CHECK(cudaMemsetAsync(worker.metric(), 0, sizeof(float), side));
    NCCL_CHECK(ncclAllGather(worker.metric(), all_metrics, 1, ncclFloat32, metrics, side));
    CUDA_CHECK(cudaStreamSynchronize(side));
    worker.EndStep(step);
  }

  float average = 0;
  CUDA_CHECK(cudaMemcpy(&average, worker.gradient(), sizeof average, cudaMemcpyDeviceToHost));
  if (worker.rank() == 0) std::printf("trained %ld steps, gradient %g\n", options["steps"], average);
  NCCL_CHECK(ncclCommDestroy(metrics));
  CUDA_CHECK(cudaStreamDestroy(side));
  CUDA_CHECK(cudaFree(all_metrics));
  return 0;
}
