// One rank has fewer batches than the others, leaves the loop first and ends well; the others wait for its gradient.
#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  const long batches = worker.rank() == options["rank"] ? options["step"] : options["steps"];  // the bug
  for (long step = 0; step < batches; ++step) {
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
}
