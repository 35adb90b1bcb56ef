// One rank is killed (the kernel's out-of-memory killer does it the same way), the others wait for it.
#include <csignal>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"signal", SIGKILL}});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    if (options.Here(worker.rank(), step)) raise(static_cast<int>(options["signal"]));
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
