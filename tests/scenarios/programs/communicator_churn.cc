// Communicators made and dropped all the time: by unique id, by split, with one rank left out, and some never
// destroyed.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"steps", 30}});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    ncclComm_t pair = nullptr;
    const bool left_out = worker.rank() == static_cast<int>(step % worker.size());
    NCCL_CHECK(ncclCommSplit(worker.communicator(), left_out ? NCCL_SPLIT_NOCOLOR : worker.rank() % 2, worker.rank(),
                             &pair, nullptr));
    if (pair) {
      NCCL_CHECK(ncclAllReduce(worker.metric(), worker.metric(), 1, ncclFloat32, ncclSum, pair, worker.stream()));
      CUDA_CHECK(cudaStreamSynchronize(worker.stream()));
      if (step % 3 != 0) NCCL_CHECK(ncclCommDestroy(pair));
    }
    ncclComm_t fresh;
    NCCL_CHECK(ncclCommInitRank(&fresh, worker.size(), ShareUniqueId(worker.job(), static_cast<int>(step) + 1),
                                worker.rank()));
    NCCL_CHECK(ncclAllReduce(worker.metric(), worker.metric(), 1, ncclFloat32, ncclMax, fresh, worker.stream()));
    CUDA_CHECK(cudaStreamSynchronize(worker.stream()));
    NCCL_CHECK(ncclCommDestroy(fresh));
    worker.AverageGradient();
    worker.EndStep(step);
  }
}
