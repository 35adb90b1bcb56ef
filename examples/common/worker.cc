#include "common/worker.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace examples {
namespace {

// How long a helper outlives its parent: as data loaders do that wait in a queue.
constexpr unsigned kChildLingersMs = 3000;

// What a data loader's worker is to its parent: a forked child that never calls NCCL and is still there, with all that
// it inherited, when the parent is gone.
void ForkChild() {
  const pid_t parent = getpid();
  if (fork() != 0) return;
  while (getppid() == parent) usleep(20000);
  usleep(kChildLingersMs * 1000);
  _exit(0);
}

}  // namespace

void UseDevice(const Job& job) {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  CUDA_CHECK(cudaSetDevice(job.local_rank % devices));
}

Worker::Worker(const Options& options)
    : job_(Job::FromEnvironment()),
      count_(static_cast<size_t>(options["count"])),
      step_ms_(options["step-ms"]),
      jitter_(static_cast<unsigned>(options["seed"] * 1000003 + job_.rank)),
      host_(count_) {
  UseDevice(job_);
  NCCL_CHECK(ncclCommInitRank(&communicator_, job_.world_size, ShareUniqueId(job_), job_.rank));
  CUDA_CHECK(cudaStreamCreate(&stream_));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&gradient_), 2 * count_ * sizeof(double)));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&metric_), sizeof(float)));
  for (long i = 0; i < options["children"]; ++i) ForkChild();
}

Worker::~Worker() {
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  NCCL_CHECK(ncclCommDestroy(communicator_));
  CUDA_CHECK(cudaStreamDestroy(stream_));
  CUDA_CHECK(cudaFree(gradient_));
  CUDA_CHECK(cudaFree(metric_));
}

void Worker::Compute(long step) {
  if (step_ms_ > 0) {
    std::uniform_int_distribution<long> microseconds(step_ms_ * 500, step_ms_ * 1500);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(jitter_)));
  }
  for (size_t i = 0; i < count_; ++i) host_[i] = static_cast<float>((step + job_.rank) % 7);
  CUDA_CHECK(cudaMemcpyAsync(gradient_, host_.data(), count_ * sizeof(float), cudaMemcpyHostToDevice, stream_));
}

void Worker::AverageGradient() {
  NCCL_CHECK(ncclAllReduce(gradient_, gradient_, count_, ncclFloat32, ncclAvg, communicator_, stream_));
}

void Worker::EndStep(long step) {
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  if (job_.rank == 0 && step % 10 == 0) std::fprintf(stderr, "step %ld\n", step);
}

}  // namespace examples
