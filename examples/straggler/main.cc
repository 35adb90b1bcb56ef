// From one step on a rank (or so many, --slow-ranks) takes half as long again as the others: throttled, or with a
// neighbour on its processors. The job goes on, and all wait for that rank in the gradient's all-reduce.
#include <unistd.h>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"steps", 1000}, {"slow-ranks", 1}});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    options.Here(worker.rank(), step);
    const bool slow = worker.rank() >= options["rank"] && worker.rank() < options["rank"] + options["slow-ranks"];
    if (slow && step >= options["step"]) usleep(static_cast<useconds_t>(options["step-ms"] * 500));
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
