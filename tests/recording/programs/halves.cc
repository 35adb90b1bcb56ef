// RANK of WORLD_SIZE splits the world in two, even and odd ranks: 50 AllReduces of each half, then one of all.
#include "tests/hosts/programs/host.h"

int main() {
  ncclComm_t world = host::World(), part = nullptr;
  const int rank = std::atoi(std::getenv("RANK"));
  NCCL(ncclCommSplit(world, rank % 2, rank, &part, nullptr));
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, 4096));
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreate(&stream));
  for (int i = 0; i < 50; ++i) NCCL(ncclAllReduce(memory, memory, 1024, ncclFloat32, ncclSum, part, stream));
  NCCL(ncclAllReduce(memory, memory, 512, ncclFloat32, ncclSum, world, stream));
  CUDA(cudaStreamSynchronize(stream));
  NCCL(ncclCommDestroy(part));
  NCCL(ncclCommDestroy(world));
}
