// Carries out one rank's part of one lane.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plan.h"

namespace random_program {

class Actor {
 public:
  // Buffers are made here, before any work is in flight: allocating may wait for the whole device.
  Actor(const Lane& lane, int lane_number, int rank, std::uint64_t seed);
  Actor(Actor&&) = default;
  void Run();
  void Free();  // when no actor of the process has work in flight any more
  std::uint64_t hash() const { return hash_; }
  int rank() const { return rank_; }
  int lane() const { return lane_number_; }

 private:
  struct Result {
    char* device;
    std::size_t bytes;
  };

  void Take(const Step& step, std::size_t number);
  void Calls(const Step& step);
  void One(const Call& call);
  void Transfers(const Step& step);
  void Split(const Step& step);
  void Create(const Step& step, std::size_t number);
  void Shrink(const Step& step);
  void Destroy(const Step& step);
  void Ask(const Step& step);
  void Register(const Step& step);
  void Wait();
  void GroupEnd(const std::vector<int>& communicators);
  // Waits until the call's work has been taken over by a non-blocking communicator.
  void Settle(ncclResult_t result, ncclComm_t communicator);
  char* Buffer(std::size_t bytes);
  cudaStream_t Stream(int number) const { return number < 0 ? nullptr : streams_[number]; }
  int RankIn(int communicator) const;  // -1: not a member

  const Lane* lane_;
  int lane_number_;
  int rank_;
  std::uint64_t seed_;
  std::uint64_t filled_;  // numbers the buffers, so that each has its own content
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
  std::vector<ncclComm_t> communicators_;
  std::vector<cudaStream_t> streams_;
  cudaStream_t copies_ = nullptr;
  char* arena_ = nullptr;
  std::size_t used_ = 0;
  std::vector<Result> results_;
};

}  // namespace random_program
