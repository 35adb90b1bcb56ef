// Reductions made by the user: their handles differ from process to process for the same operation.
#include <vector>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  std::vector<ncclRedOp_t> unused(static_cast<size_t>(worker.rank()));  // shifts the handles that follow
  float one = 1;
  for (ncclRedOp_t& reduction : unused) {
    NCCL_CHECK(ncclRedOpCreatePreMulSum(&reduction, &one, ncclFloat32, ncclScalarHostImmediate, worker.communicator()));
  }
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    ncclRedOp_t scaled;
    float factor = 0.5f + static_cast<float>(worker.rank());
    NCCL_CHECK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat32, ncclScalarHostImmediate, worker.communicator()));
    NCCL_CHECK(ncclAllReduce(worker.gradient(), worker.gradient(), worker.count(), ncclFloat32, scaled,
                             worker.communicator(), worker.stream()));
    NCCL_CHECK(ncclRedOpDestroy(scaled, worker.communicator()));
    worker.EndStep(step);
  }
  for (ncclRedOp_t reduction : unused) NCCL_CHECK(ncclRedOpDestroy(reduction, worker.communicator()));
}
