// What the small host programs share: ranks from the launcher's environment, unique ids through files, and calls that
// end the program with status 99 when anything is not as it has to be.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      _exit(99);                                                                         \
    }                                                                                    \
  } while (0)

#define NCCL(call)                                                                                         \
  do {                                                                                                     \
    const ncclResult_t nccl_result = (call);                                                               \
    if (nccl_result != ncclSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(nccl_result)); \
      _exit(99);                                                                                           \
    }                                                                                                      \
  } while (0)

#define CUDA(call)                                                                                         \
  do {                                                                                                     \
    const cudaError_t cuda_result = (call);                                                                \
    if (cuda_result != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(cuda_result)); \
      _exit(99);                                                                                           \
    }                                                                                                      \
  } while (0)

namespace host {

inline int FromEnvironment(const char* name, int fallback) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : fallback;
}
inline int Rank() { return FromEnvironment("RANK", 0); }
inline int Ranks() { return FromEnvironment("WORLD_SIZE", 1); }

// Rank 0 of `name` makes the id; the others read it from the job's folder.
inline ncclUniqueId SharedId(const std::string& name, bool make) {
  const char* directory = std::getenv("HOST_ID_DIR");
  CHECK(directory);
  const std::string path = std::string(directory) + "/" + name;
  ncclUniqueId id;
  if (make) {
    NCCL(ncclGetUniqueId(&id));
    FILE* file = std::fopen((path + ".new").c_str(), "w");
    CHECK(file && std::fwrite(&id, sizeof id, 1, file) == 1 && std::fclose(file) == 0);
    CHECK(std::rename((path + ".new").c_str(), path.c_str()) == 0);
    return id;
  }
  FILE* file = nullptr;
  while (!(file = std::fopen(path.c_str(), "r"))) usleep(2000);
  CHECK(std::fread(&id, sizeof id, 1, file) == 1);
  std::fclose(file);
  return id;
}

inline ncclComm_t World(const std::string& name = "world", int ranks = Ranks(), int rank = Rank()) {
  CUDA(cudaSetDevice(0));
  ncclComm_t communicator = nullptr;
  NCCL(ncclCommInitRank(&communicator, ranks, SharedId(name, rank == 0), rank));
  return communicator;
}

// A communicator of this process alone.
inline ncclComm_t Alone() {
  CUDA(cudaSetDevice(0));
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t communicator = nullptr;
  NCCL(ncclCommInitRank(&communicator, 1, id, 0));
  return communicator;
}

// An all-reduce of `count` floats on `stream`, waited for and checked against plain arithmetic.
inline void AllReduce(ncclComm_t communicator, std::size_t count, cudaStream_t stream = nullptr) {
  int rank = 0, ranks = 0;
  NCCL(ncclCommUserRank(communicator, &rank));
  NCCL(ncclCommCount(communicator, &ranks));
  std::vector<float> values(count, static_cast<float>(rank + 1));
  float* device = nullptr;
  CUDA(cudaMalloc(reinterpret_cast<void**>(&device), count * sizeof(float)));
  CUDA(cudaMemcpy(device, values.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  NCCL(ncclAllReduce(device, device, count, ncclFloat32, ncclSum, communicator, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemcpy(values.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
  const int sum = ranks * (ranks + 1) / 2;
  for (float value : values) CHECK(value == static_cast<float>(sum));
  CUDA(cudaFree(device));
}

inline void Say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace host
