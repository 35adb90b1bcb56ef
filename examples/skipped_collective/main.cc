// On one rank a branch skips the gradient's all-reduce and goes on to the next call, the broadcast of the learning
// rate.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    const bool loss_is_finite = !options.Here(worker.rank(), step);
    if (loss_is_finite) worker.AverageGradient();  // the bug: only this rank's own loss decides
    NCCL_CHECK(
        ncclBroadcast(worker.metric(), worker.metric(), 1, ncclFloat32, 0, worker.communicator(), worker.stream()));
    worker.EndStep(step);
  }
  return 0;
}
