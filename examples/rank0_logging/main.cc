// Rank 0 alone averages the loss for its log line: one all-reduce more than the others make.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"rank", 0}});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    worker.AverageGradient();
    if (options.Here(worker.rank(), step)) {  // the bug: `if (rank == 0 && step % log_interval == 0)`
      NCCL_CHECK(ncclAllReduce(worker.metric(), worker.metric(), 1, ncclFloat32, ncclAvg, worker.communicator(),
                               worker.stream()));
    }
    worker.EndStep(step);
  }
  return 0;
}
