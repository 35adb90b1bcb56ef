// Calls that only move bytes, described differently by different ranks: 4 x int8 against 1 x float32. NCCL accepts
// them.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  const bool odd = worker.rank() % 2 == 1;
  const ncclDataType_t type = odd ? ncclInt8 : ncclFloat32;
  const size_t count = odd ? 4 * 16 : 16;
  float* gathered;
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&gathered), sizeof(float) * 16 * worker.size()));
  const int next = (worker.rank() + 1) % worker.size();
  const int previous = (worker.rank() + worker.size() - 1) % worker.size();
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    NCCL_CHECK(ncclAllGather(worker.gradient(), gathered, count, type, worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclBroadcast(worker.gradient(), worker.gradient(), count, type, static_cast<int>(step % worker.size()),
                             worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclGroupStart());
    NCCL_CHECK(ncclSend(worker.gradient(), count, type, next, worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclRecv(gathered, count, type, previous, worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclGroupEnd());
    worker.AverageGradient();
    worker.EndStep(step);
  }
  CUDA_CHECK(cudaFree(gathered));
}
