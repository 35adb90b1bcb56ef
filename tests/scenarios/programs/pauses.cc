// Now and then the job stands still: every --every steps all ranks pause (an evaluation), or with --alone 1 the rank
// --rank alone does and the others wait for it. The first pause comes early, so that there is a history.
#include <chrono>
#include <thread>

#include "common/worker.h"

using namespace examples;

int main(int argc, char** argv) {
  Options options(argc, argv, {{"pause-ms", 30000}, {"every", 20}, {"alone", 0}});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    if (step % options["every"] == 5 && (!options["alone"] || worker.rank() == options["rank"])) {
      std::this_thread::sleep_for(std::chrono::milliseconds(options["pause-ms"]));
    }
    worker.AverageGradient();
    worker.EndStep(step);
  }
}
