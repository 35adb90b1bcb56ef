// On one rank the stream gets work that never ends, before the gradient's all-reduce: the host has made every call, and
// the GPU never comes to the last one.
#include <condition_variable>
#include <mutex>

#include "common/worker.h"

using namespace examples;

namespace {

// A host function in the stream that waits for a lock which nobody gives back. A kernel that spins on a flag does the
// same.
void CUDART_CB WaitForever(void*) {
  std::mutex mutex;
  std::condition_variable given_back;
  std::unique_lock lock(mutex);
  given_back.wait(lock, [] { return false; });
}

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, {});
  Worker worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    if (options.Here(worker.rank(), step)) CUDA_CHECK(cudaLaunchHostFunc(worker.stream(), WaitForever, nullptr));
    worker.AverageGradient();
    worker.EndStep(step);
  }
  return 0;
}
