// The ranks do not agree on how many they are: one was started with a world size of its own.
#include <cstdlib>
#include <string>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"world-size", 8}});
  const Job job = Job::FromEnvironment();
  if (options.Here(job.rank)) {  // the bug: this node's launch script was edited, the others' were not
    setenv("WORLD_SIZE", std::to_string(options["world-size"]).c_str(), 1);
  }
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
