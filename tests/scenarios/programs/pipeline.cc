// A pipeline: each rank is a stage; activations go down, gradients come back, one forward and one backward at a time.
// Early stages have more in flight than late ones, so the ranks' sequences differ by design.
#include <algorithm>

#include "common/worker.h"

using namespace examples;

namespace {

class Stage {
 public:
  Stage(Worker& worker, size_t count) : worker_(worker), count_(count) {
    for (float** buffer : {&sent_, &received_}) {
      CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(buffer), count * sizeof(float)));
      CUDA_CHECK(cudaMemset(*buffer, 0, count * sizeof(float)));
    }
  }
  ~Stage() {
    CUDA_CHECK(cudaStreamSynchronize(worker_.stream()));
    CUDA_CHECK(cudaFree(sent_));
    CUDA_CHECK(cudaFree(received_));
  }
  // One forward, one backward: a stage that sends down also waits for what comes up, in one group, or two neighbours
  // that send to one another would wait for ever.
  void Step(long microbatches) {
    const int up = worker_.rank() - 1;
    const int down = worker_.rank() + 1;
    const long warm_up = std::min<long>(microbatches, worker_.size() - down);
    for (long i = 0; i < warm_up; ++i) {
      Exchange(kNobody, up);
      Exchange(down, kNobody);
    }
    const long steady = microbatches - warm_up;
    if (steady > 0) Exchange(kNobody, up);
    for (long i = 0; i < steady; ++i) {
      Exchange(down, down);
      Exchange(up, i + 1 < steady ? up : kNobody);
    }
    for (long i = 0; i < warm_up; ++i) {
      Exchange(kNobody, down);
      Exchange(up, kNobody);
    }
  }

 private:
  static constexpr int kNobody = -1;

  void Exchange(int send_to, int receive_from) {
    const auto exists = [this](int rank) { return rank >= 0 && rank < worker_.size(); };
    worker_.Compute(0);
    NCCL_CHECK(ncclGroupStart());
    if (exists(send_to)) {
      NCCL_CHECK(ncclSend(sent_, count_, ncclFloat32, send_to, worker_.communicator(), worker_.stream()));
    }
    if (exists(receive_from)) {
      NCCL_CHECK(ncclRecv(received_, count_, ncclFloat32, receive_from, worker_.communicator(), worker_.stream()));
    }
    NCCL_CHECK(ncclGroupEnd());
    CUDA_CHECK(cudaStreamSynchronize(worker_.stream()));
  }

  Worker& worker_;
  size_t count_;
  float* sent_ = nullptr;
  float* received_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, {{"microbatches", 8}, {"steps", 10}, {"step-ms", 4}});
  Worker worker(options);
  Stage stage(worker, worker.count());
  for (long step = 0; step < options["steps"]; ++step) {
    stage.Step(options["microbatches"]);
    worker.AverageGradient();
    worker.EndStep(step);
  }
}
