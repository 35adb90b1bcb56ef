// A pipeline: each rank is a stage; activations go down, gradients come back, one forward and one backward at a time.
// Early stages have more in flight than late ones, so the ranks' sequences differ by design.
#include <algorithm>

#include "common/worker.h"

using namespace examples;

namespace {

class Stage {
 public:
  Stage(Worker& worker, size_t count) : worker_(worker), count_(count) {
    CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer_), count * sizeof(float)));
    CUDA_CHECK(cudaMemset(buffer_, 0, count * sizeof(float)));
  }
  ~Stage() {
    CUDA_CHECK(cudaStreamSynchronize(worker_.stream()));
    CUDA_CHECK(cudaFree(buffer_));
  }
  void Forward() { Pass(worker_.rank() - 1, worker_.rank() + 1); }
  void Backward() { Pass(worker_.rank() + 1, worker_.rank() - 1); }

 private:
  void Pass(int from, int to) {
    if (from >= 0 && from < worker_.size()) {
      NCCL_CHECK(ncclRecv(buffer_, count_, ncclFloat32, from, worker_.communicator(), worker_.stream()));
    }
    worker_.Compute(0);
    if (to >= 0 && to < worker_.size()) {
      NCCL_CHECK(ncclSend(buffer_, count_, ncclFloat32, to, worker_.communicator(), worker_.stream()));
    }
    CUDA_CHECK(cudaStreamSynchronize(worker_.stream()));
  }
  Worker& worker_;
  size_t count_;
  float* buffer_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, {{"microbatches", 8}, {"steps", 10}, {"step-ms", 4}});
  Worker worker(options);
  Stage stage(worker, worker.count());
  for (long step = 0; step < options["steps"]; ++step) {
    const long warm_up = std::min<long>(options["microbatches"], worker.size() - 1 - worker.rank());
    for (long i = 0; i < warm_up; ++i) stage.Forward();
    for (long i = warm_up; i < options["microbatches"]; ++i) {
      stage.Forward();
      stage.Backward();
    }
    for (long i = 0; i < warm_up; ++i) stage.Backward();
    worker.AverageGradient();
    worker.EndStep(step);
  }
}
