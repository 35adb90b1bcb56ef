// Ranks end normally, each when it is ready, seconds apart, after the last call that anybody waits in. Rank 0 saves a
// checkpoint meanwhile and goes on calling NCCL alone, on a communicator of one.
#include <chrono>
#include <thread>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"ragged-ms", 3000}, {"destroy", 1}});
  Worker& worker = *new Worker(options);  // --destroy 0: as many programs do, leaves the communicator to the system
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  const long share = worker.size() > 1 ? (7L * worker.rank() + options["seed"]) % worker.size() : 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(options["ragged-ms"] * share / worker.size()));
  if (worker.rank() == 0) {
    ncclComm_t alone;
    ncclUniqueId id;
    NCCL_CHECK(ncclGetUniqueId(&id));
    NCCL_CHECK(ncclCommInitRank(&alone, 1, id, 0));
    NCCL_CHECK(ncclAllReduce(worker.metric(), worker.metric(), 1, ncclFloat32, ncclSum, alone, worker.stream()));
    CUDA_CHECK(cudaStreamSynchronize(worker.stream()));
    NCCL_CHECK(ncclCommDestroy(alone));
    std::this_thread::sleep_for(std::chrono::milliseconds(options["ragged-ms"]));
  }
  if (options["destroy"]) delete &worker;
}
