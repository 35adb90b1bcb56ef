// One rank fell out of mixed precision: it reduces doubles where the others reduce floats.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    const ncclDataType_t type = options.Here(worker.rank(), step) ? ncclFloat64 : ncclFloat32;  // the bug
    NCCL_CHECK(ncclAllReduce(worker.gradient(), worker.gradient(), worker.count(), type, ncclSum, worker.communicator(),
                             worker.stream()));
    worker.EndStep(step);
  }
  return 0;
}
