// A training loop on GPUs over NCCL: data-parallel, or a pipeline with a stage on each rank (--micro-batches N). The
// host enqueues a step and waits for its loss. A host function on the stream stands for a kernel.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "common/check.h"
#include "common/job.h"
#include "work.h"

using loops::Options;
using loops::Work;

namespace {

struct Kernel {
  Work* work;
  double ms;
};

void RunKernel(void* data) {
  const std::unique_ptr<Kernel> kernel(static_cast<Kernel*>(data));
  kernel->work->Compute(kernel->ms);
}

void RunLateKernel(void* data) {
  const std::unique_ptr<Kernel> kernel(static_cast<Kernel*>(data));
  kernel->work->BeLateOnDevice(kernel->ms);
}

template <typename T>
T* Allocate(size_t count) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

cudaEvent_t NewEvent() {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

class Trainer {
 public:
  Trainer(const Options& options, Work* work, const examples::Job& job)
      : options_(options),
        work_(work),
        rank_(job.rank),
        size_(job.world_size),
        count_(static_cast<size_t>(options["count"])),
        batch_(static_cast<size_t>(options["batch"])),
        state_(static_cast<size_t>(options["state"])),
        ready_(NewEvent()) {
    CUDA_CHECK(cudaStreamCreate(&compute_));
    CUDA_CHECK(cudaStreamCreate(&communication_));
    NCCL_CHECK(ncclCommInitRank(&communicator_, size_, examples::ShareUniqueId(job), rank_));
    gradient_ = Allocate<float>(count_);
    activation_ = Allocate<float>(count_);
    loss_ = Allocate<float>(1);
    device_batch_ = Allocate<char>(batch_.size());
  }

  ~Trainer() {
    CUDA_CHECK(cudaDeviceSynchronize());
    NCCL_CHECK(ncclCommDestroy(communicator_));
  }

  void DataParallelStep() {
    work_->ReadBatch(&batch_);
    CUDA_CHECK(cudaMemcpyAsync(device_batch_, batch_.data(), batch_.size(), cudaMemcpyHostToDevice, compute_));
    work_->BeLate();
    if (const double ms = work_->LateOnDeviceMs(); ms > 0) {
      CUDA_CHECK(cudaLaunchHostFunc(compute_, RunLateKernel, new Kernel{work_, ms}));
    }
    Compute(work_->StepMs() * 0.3);
    AverageGradient(work_->StepMs() * 0.65);
    Launch(work_->StepMs() * 0.05);
    FetchLoss();
    if (work_->Every("evaluate-every")) Evaluate();
    if (work_->Every("checkpoint-every")) {
      if (rank_ == static_cast<int>(options_["writer"])) work_->Checkpoint(state_);
      if (options_["barrier"] > 0) Barrier();
    }
  }

  // All forward passes, then all backward passes.
  void PipelineStep() {
    const int micro_batches = static_cast<int>(options_["micro-batches"]);
    const double ms = work_->StepMs() / micro_batches;
    for (int i = 0; i < micro_batches; ++i) {
      if (rank_ > 0) NCCL_CHECK(ncclRecv(activation_, count_, ncclFloat32, rank_ - 1, communicator_, compute_));
      Launch(ms * 0.35);
      if (rank_ < size_ - 1) NCCL_CHECK(ncclSend(activation_, count_, ncclFloat32, rank_ + 1, communicator_, compute_));
    }
    for (int i = 0; i < micro_batches; ++i) {
      if (rank_ < size_ - 1) NCCL_CHECK(ncclRecv(activation_, count_, ncclFloat32, rank_ + 1, communicator_, compute_));
      Launch(ms * 0.65);
      if (rank_ > 0) NCCL_CHECK(ncclSend(activation_, count_, ncclFloat32, rank_ - 1, communicator_, compute_));
    }
    NCCL_CHECK(ncclAllReduce(loss_, loss_, 1, ncclFloat32, ncclSum, communicator_, compute_));
    FetchLoss();
  }

 private:
  void Launch(double ms) { CUDA_CHECK(cudaLaunchHostFunc(compute_, RunKernel, new Kernel{work_, ms})); }

  // Some loops do a part of their work on the host.
  void Compute(double ms) {
    const double on_host = options_["host-percent"] / 100 * ms;
    if (on_host > 0) work_->Compute(on_host);
    if (on_host < ms) Launch(ms - on_host);
  }

  // Each bucket is reduced while the backward pass goes on.
  void AverageGradient(double backward_ms) {
    const auto buckets = static_cast<size_t>(options_["buckets"]);
    for (size_t i = 0; i < buckets; ++i) {
      Compute(backward_ms / static_cast<double>(buckets));
      Follow(communication_, compute_);
      float* bucket = gradient_ + i * (count_ / buckets);
      NCCL_CHECK(ncclAllReduce(bucket, bucket, count_ / buckets, ncclFloat32, ncclAvg, communicator_, communication_));
    }
    Follow(compute_, communication_);
  }

  void Follow(cudaStream_t later, cudaStream_t earlier) {
    CUDA_CHECK(cudaEventRecord(ready_, earlier));
    CUDA_CHECK(cudaStreamWaitEvent(later, ready_, 0));
  }

  void FetchLoss() {
    float loss = 0;
    CUDA_CHECK(cudaMemcpyAsync(&loss, loss_, sizeof loss, cudaMemcpyDeviceToHost, compute_));
    CUDA_CHECK(cudaStreamSynchronize(compute_));
  }

  void Barrier() {
    NCCL_CHECK(ncclAllReduce(loss_, loss_, 1, ncclFloat32, ncclSum, communicator_, compute_));
    CUDA_CHECK(cudaStreamSynchronize(compute_));
  }

  void Evaluate() {
    for (int i = 0; i < 4; ++i) Compute(work_->StepMs() / 3);
    Barrier();
  }

  const Options& options_;
  Work* const work_;
  const int rank_, size_;
  const size_t count_;
  std::vector<char> batch_, state_;
  cudaEvent_t ready_;
  cudaStream_t compute_ = nullptr, communication_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  float *gradient_ = nullptr, *activation_ = nullptr, *loss_ = nullptr;
  char* device_batch_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  const examples::Job job = examples::Job::FromEnvironment();
  Work work(options, job.rank);  // its helpers are forked before CUDA starts
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  CUDA_CHECK(cudaSetDevice(job.local_rank % devices));
  Trainer trainer(options, &work, job);
  for (long step = 0; step < static_cast<long>(options["steps"]); ++step) {
    work.BeginStep(step);
    options["micro-batches"] > 0 ? trainer.PipelineStep() : trainer.DataParallelStep();
  }
  return 0;
}
