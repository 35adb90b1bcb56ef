// Each rank passes a message to the right, in one group with the one that comes from the left. Once --rank sends to
// --peer instead, or --more elements than always; then it is as if nothing had happened.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv,
                  {{"peer", -1}, {"more", 0}, {"average", 1}, {"count", 64}, {"steps", 10}, {"step-ms", 2}});
  Worker worker(options);
  float* received = nullptr;
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&received), worker.count() * sizeof(float)));
  const int right = (worker.rank() + 1) % worker.size(), left = (worker.rank() + worker.size() - 1) % worker.size();
  for (long step = 0; step < options["steps"]; ++step) {
    int peer = right;
    size_t count = worker.count();
    worker.Compute(step);
    if (options.Here(worker.rank(), step)) {
      if (options["peer"] >= 0) peer = static_cast<int>(options["peer"]);
      count += static_cast<size_t>(options["more"]);
    }
    NCCL_CHECK(ncclGroupStart());
    NCCL_CHECK(ncclSend(worker.gradient(), count, ncclFloat32, peer, worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclRecv(received, worker.count(), ncclFloat32, left, worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclGroupEnd());
    if (options["average"] != 0) worker.AverageGradient();
    worker.EndStep(step);
  }
  CUDA_CHECK(cudaFree(received));
}
