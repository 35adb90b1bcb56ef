// What every training process has: a device, a stream, a communicator over all ranks, and a gradient on the device.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <random>
#include <vector>

#include "common/check.h"
#include "common/job.h"
#include "common/options.h"

namespace examples {

class Worker {
 public:
  // Joins the communicator of all ranks.
  explicit Worker(const Options& options);
  // Waits for the stream, then gives everything back.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int rank() const { return job_.rank; }
  int size() const { return job_.world_size; }
  const Job& job() const { return job_; }
  ncclComm_t communicator() const { return communicator_; }
  cudaStream_t stream() const { return stream_; }
  float* gradient() { return gradient_; }  // room for 2 * count() elements
  float* metric() { return metric_; }      // one element
  size_t count() const { return count_; }

  // Forward and backward pass: takes about --step-ms on the host and leaves this rank's gradient on the device.
  void Compute(long step);
  // The honest all-reduce of the gradient.
  void AverageGradient();
  // The stream has done everything; on rank 0, says so now and then.
  void EndStep(long step);

 private:
  Job job_;
  size_t count_;
  long step_ms_;
  std::mt19937 jitter_;
  std::vector<float> host_;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* gradient_ = nullptr;
  float* metric_ = nullptr;
};

// A device for this rank, taking turns where there are fewer devices than ranks.
void UseDevice(const Job& job);

}  // namespace examples
