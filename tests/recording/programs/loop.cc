// A training loop as the tests of recordings want it: RANK of WORLD_SIZE makes STEPS steps of three AllReduces, an
// AllGather and a Broadcast, with PAUSE_US microseconds between steps, and writes what it called into LOG, a line each:
// operation and count. On SIGUSR1 it goes on without pauses.
#include <time.h>

#include <csignal>

#include "tests/hosts/programs/host.h"

namespace {

volatile std::sig_atomic_t hurried = 0;

void Pause(long microseconds) {
  if (microseconds == 0 || hurried) return;
  const timespec time{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  nanosleep(&time, nullptr);
}

}  // namespace

int main(int, char** words) {
  const int steps = std::atoi(words[1]);
  const long pause_us = std::atol(words[2]);
  FILE* const log = std::fopen(words[3], "w");
  CHECK(log);
  std::signal(SIGUSR1, [](int) { hurried = 1; });
  const int ranks = host::Ranks();
  ncclComm_t communicator = host::World();
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, std::size_t{4} * 4096 * static_cast<std::size_t>(ranks)));
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreate(&stream));
  float* const data = static_cast<float*>(memory);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t bucket = 1; bucket <= 3; ++bucket) {
      NCCL(ncclAllReduce(data, data, bucket * 100, ncclFloat32, ncclSum, communicator, stream));
      std::fprintf(log, "AllReduce %zu\n", bucket * 100);
    }
    NCCL(ncclAllGather(data, data + 2048, 10, ncclFloat32, communicator, stream));
    NCCL(ncclBroadcast(data, data, static_cast<std::size_t>(step) % 7 + 1, ncclInt8, 0, communicator, stream));
    std::fprintf(log, "AllGather 10\nBroadcast %d\n", step % 7 + 1);
    if (step % 16 == 0) CUDA(cudaStreamSynchronize(stream));
    Pause(pause_us);
  }
  CUDA(cudaStreamSynchronize(stream));
  NCCL(ncclCommDestroy(communicator));
  CHECK(std::fclose(log) == 0);
  std::printf("%d\n", steps * 5);
}
