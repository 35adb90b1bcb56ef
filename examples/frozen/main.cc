// One rank stops as a whole (SIGSTOP here; a wedged driver or file system does it the same way).
#include <csignal>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    if (options.Here(worker.rank(), step)) raise(SIGSTOP);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
