// One rank never gets as far as ncclCommInitRank: it still loads its data set.
#include <unistd.h>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  if (options.Here(Job::FromEnvironment().rank)) pause();
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
