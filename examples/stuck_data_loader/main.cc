// One rank waits for its next batch for ever, while the others wait for it in the gradient's all-reduce.
#include <condition_variable>
#include <mutex>

#include "common/worker.h"

using namespace examples;

namespace {

// A queue of batches whose filler has died without a word on one rank.
class Batches {
 public:
  void Next(bool filler_is_gone) {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !filler_is_gone; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  Batches batches;
  for (long step = 0; step < options["steps"]; ++step) {
    batches.Next(options.Here(worker.rank(), step));
    worker.Compute(step);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
