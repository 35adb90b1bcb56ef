// From some step on one rank cuts its gradient into other buckets: same operation, different count.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  size_t bucket = worker.count();
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    if (options.Here(worker.rank(), step)) bucket = worker.count() / 2;  // the bug: this rank's configuration differs
    for (size_t done = 0; done < worker.count(); done += bucket) {
      NCCL_CHECK(ncclAllReduce(worker.gradient() + done, worker.gradient() + done, bucket, ncclFloat32, ncclSum,
                               worker.communicator(), worker.stream()));
    }
    worker.EndStep(step);
  }
  return 0;
}
