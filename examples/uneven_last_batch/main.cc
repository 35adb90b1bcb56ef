// One rank has fewer batches than the others, leaves the loop first and ends well; the others wait for its gradient.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    const bool out_of_batches = options.Here(worker.rank(), step);
    if (out_of_batches) break;  // the bug: the others are not asked
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
