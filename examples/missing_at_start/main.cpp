// One rank never gets as far as ncclCommInitRank: it still loads its data set.
#include <unistd.h>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  if (Job::FromEnvironment().rank == options["rank"]) pause();
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
}
