// One rank throws; main catches, says so and returns 1. The others wait for a gradient that will not come.
#include <cstdio>
#include <stdexcept>

#include "common/worker.h"

using namespace examples;

namespace {

void Train(const Options& options) {
  // Leaked when an exception passes: the communicator of a rank that fails is given back by nobody.
  Worker& worker = *new Worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    if (options.Here(worker.rank(), step)) throw std::runtime_error("batch of this rank is empty");
    worker.AverageGradient();
    worker.EndStep(step);
  }
  delete &worker;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): --terminate is there to let it escape
int main(int argc, char** argv) {
  Options options(argc, argv, {{"terminate", 0}});  // --terminate 1: nobody catches
  if (options["terminate"]) {
    Train(options);
    return 0;
  }
  try {
    Train(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
