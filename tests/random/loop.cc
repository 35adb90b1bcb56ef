// A loop of small calls: loop CALLS. Prints the hash of every result. The i-th call is an all-reduce of 1 + i % 8
// 32-bit integers, but each 7th is a broadcast from rank i / 7 % ranks.
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr long kInFlight = 128;
constexpr long kCount = 8;

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "loop: %s failed\n", what);
  _exit(99);
}

ncclUniqueId SharedId(bool make) {
  const std::string path = std::string(std::getenv("HOST_ID_DIR")) + "/loop";
  ncclUniqueId id;
  if (make) {
    Check(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
    FILE* file = std::fopen((path + ".new").c_str(), "w");
    Check(file && std::fwrite(&id, sizeof id, 1, file) == 1 && std::fclose(file) == 0, "writing the id");
    Check(std::rename((path + ".new").c_str(), path.c_str()) == 0, "naming the id");
    return id;
  }
  FILE* file = nullptr;
  while (!(file = std::fopen(path.c_str(), "r"))) usleep(1000);
  Check(std::fread(&id, sizeof id, 1, file) == 1, "reading the id");
  std::fclose(file);
  return id;
}

}  // namespace

int main(int argc, char** argv) {
  Check(argc == 2, "the number of arguments");
  const long calls = std::atol(argv[1]);
  const int rank = std::atoi(std::getenv("RANK"));
  const int ranks = std::atoi(std::getenv("WORLD_SIZE"));
  Check(cudaSetDevice(0) == cudaSuccess, "cudaSetDevice");
  ncclComm_t communicator = nullptr;
  Check(ncclCommInitRank(&communicator, ranks, SharedId(rank == 0), rank) == ncclSuccess, "ncclCommInitRank");
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreate(&stream) == cudaSuccess, "cudaStreamCreate");
  std::vector<std::int32_t> host(kInFlight * kCount);
  std::int32_t* device = nullptr;
  const std::size_t bytes = host.size() * sizeof host[0];
  Check(cudaMalloc(reinterpret_cast<void**>(&device), bytes) == cudaSuccess, "cudaMalloc");
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (long done = 0; done < calls; done += kInFlight) {
    for (std::size_t i = 0; i < host.size(); ++i)
      host[i] = static_cast<std::int32_t>((done + 1) * (rank + 1) + i) & 0xffff;
    Check(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess, "copying in");
    for (long i = done; i < calls && i < done + kInFlight; ++i) {
      std::int32_t* buffer = device + (i - done) * kCount;
      const std::size_t count = 1 + i % kCount;
      const ncclResult_t result =
          i % 7 == 0
              ? ncclBroadcast(buffer, buffer, count, ncclInt32, static_cast<int>(i / 7 % ranks), communicator, stream)
              : ncclAllReduce(buffer, buffer, count, ncclInt32, ncclSum, communicator, stream);
      Check(result == ncclSuccess, "a call");
    }
    Check(cudaStreamSynchronize(stream) == cudaSuccess, "cudaStreamSynchronize");
    Check(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost) == cudaSuccess, "copying out");
    for (const std::int32_t value : host) hash = (hash ^ static_cast<std::uint32_t>(value)) * 0x100000001b3ull;
  }
  std::printf("hash %016lx\n", static_cast<unsigned long>(hash));
  Check(ncclCommDestroy(communicator) == ncclSuccess, "ncclCommDestroy");
  return 0;
}
