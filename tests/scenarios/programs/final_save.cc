// Rank 0 saves for some seconds while the others already wait for it in the last barrier.
#include <chrono>
#include <thread>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"save-ms", 5000}});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  if (worker.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(options["save-ms"]));
  NCCL_CHECK(
      ncclAllReduce(worker.metric(), worker.metric(), 1, ncclFloat32, ncclSum, worker.communicator(), worker.stream()));
}
