// A deadlock of NCCL as the tests of recordings want it: after STEPS exchanges in groups, each rank sends to its right
// before it receives from its left.
#include "tests/hosts/programs/host.h"

int main(int, char** words) {
  const int steps = std::atoi(words[1]);
  const int ranks = host::Ranks(), rank = host::Rank();
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  ncclComm_t communicator = host::World();
  void *sent = nullptr, *received = nullptr;
  constexpr std::size_t kFloats = 1024;
  CUDA(cudaMalloc(&sent, kFloats * sizeof(float)));
  CUDA(cudaMalloc(&received, kFloats * sizeof(float)));
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreate(&stream));
  for (int step = 0; step < steps; ++step) {
    NCCL(ncclGroupStart());
    NCCL(ncclSend(sent, kFloats, ncclFloat32, right, communicator, stream));
    NCCL(ncclRecv(received, kFloats, ncclFloat32, left, communicator, stream));
    NCCL(ncclGroupEnd());
    NCCL(ncclAllReduce(received, received, kFloats, ncclFloat32, ncclSum, communicator, stream));
  }
  NCCL(ncclSend(sent, kFloats, ncclFloat32, right, communicator, stream));
  NCCL(ncclRecv(received, kFloats, ncclFloat32, left, communicator, stream));
  CUDA(cudaStreamSynchronize(stream));
}
