// Allocations that fail, by every way in to the CUDA driver: memory MODE. To be run with SOFTGPU_MEMORY=64M.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>

#include "host.h"

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kTooMuch = 100 * kMiB;

// What the runtime tells of the failure must be told once, and stay the application's.
void ExpectRefused(cudaError_t result) {
  CHECK(result == cudaErrorMemoryAllocation);
  CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
}

void* Driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  CHECK(driver);
  return driver;
}

void Runtime() {
  void* memory = nullptr;
  ExpectRefused(cudaMalloc(&memory, kTooMuch));
  ExpectRefused(cudaMallocManaged(&memory, kTooMuch + 1, cudaMemAttachGlobal));
  ExpectRefused(cudaMallocAsync(&memory, kTooMuch + 2, nullptr));
  std::size_t pitch = 0;
  ExpectRefused(cudaMallocPitch(&memory, &pitch, 1 << 20, 200));
}

using Allocate = CUresult (*)(CUdeviceptr*, std::size_t);
using FindFunction = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

void ByName() {
  CUdeviceptr memory = 0;
  const auto allocate = reinterpret_cast<Allocate>(dlsym(Driver(), "cuMemAlloc_v2"));
  CHECK(allocate && allocate(&memory, kTooMuch + 3) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(allocate(&memory, kMiB) == CUDA_SUCCESS && memory != 0);
  CHECK(dlsym(Driver(), "cuMemNoSuchFunction") == nullptr && dlerror() != nullptr);
  CHECK(dlsym(Driver(), "cuMemFree_v2") != nullptr);
  const auto find = reinterpret_cast<FindFunction>(dlsym(Driver(), "cuGetProcAddress_v2"));
  CHECK(find);
  void* found = nullptr;
  CHECK(find("cuMemAlloc", &found, 12000, 0, nullptr) == CUDA_SUCCESS && found);
  CHECK(reinterpret_cast<Allocate>(found)(&memory, kTooMuch + 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(find("cuMemAllocAsync", &found, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr) == CUDA_SUCCESS);
  CHECK(reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t, CUstream)>(found)(&memory, kTooMuch + 5, nullptr) ==
        CUDA_ERROR_OUT_OF_MEMORY);
  // A finder found by a finder.
  CHECK(find("cuGetProcAddress", &found, 12000, 0, nullptr) == CUDA_SUCCESS && found);
  const auto again = reinterpret_cast<FindFunction>(found);
  CHECK(again("cuMemAllocManaged", &found, 12000, 0, nullptr) == CUDA_SUCCESS && found);
  CHECK(reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t, unsigned)>(found)(
            &memory, kTooMuch + 6, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(find("cuNoSuchThing", &found, 12000, 0, nullptr) == CUDA_SUCCESS && !found);
}

// Frees what it can spare and tries once more, as torch's allocator does.
void Recover() {
  void *cache = nullptr, *wanted = nullptr;
  CUDA(cudaMalloc(&cache, 40 * kMiB));
  ExpectRefused(cudaMalloc(&wanted, 41 * kMiB));
  CUDA(cudaFree(cache));
  CUDA(cudaMalloc(&wanted, 41 * kMiB));
  CUDA(cudaFree(wanted));
}

// A smaller one that succeeds is no recovery.
void Smaller() {
  void* memory = nullptr;
  ExpectRefused(cudaMalloc(&memory, kTooMuch));
  CUDA(cudaMalloc(&memory, kMiB));
}

// In the middle of another thread's capture a failed allocation must not spoil it more than it does by itself.
void Capture() {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, kTooMuch) != cudaSuccess);
  cudaStreamCaptureStatus status{};
  CUDA(cudaStreamIsCapturing(stream, &status));
  host::Say("capture status " + std::to_string(status));
  cudaGraph_t graph = nullptr;
  host::Say("capture ends with " + std::to_string(cudaStreamEndCapture(stream, &graph)));
  static_cast<void>(cudaGetLastError());
}

// An error that only shows when NCCL is asked for it, again and again.
int Asynchronous(ncclComm_t world) {
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, kMiB));
  NCCL(ncclAllReduce(memory, memory, 65, ncclFloat32, ncclSum, world, nullptr));
  ncclResult_t state = ncclSuccess;
  for (int i = 0; i < 1500 && state == ncclSuccess; ++i) {
    NCCL(ncclCommGetAsyncError(world, &state));
    usleep(1000);
  }
  for (int i = 0; i < 5; ++i) {
    NCCL(ncclCommGetAsyncError(world, &state));
    host::Say("state " + std::to_string(state));
  }
  NCCL(ncclCommAbort(world));
  return 0;
}

void Child() {
  const pid_t child = fork();
  if (child == 0) {
    void* memory = nullptr;
    _exit(cudaMalloc(&memory, kTooMuch) == cudaSuccess ? 1 : 0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const std::string mode = argv[1];
  if (mode == "before") Smaller();
  const ncclComm_t world = host::World();
  host::AllReduce(world, 64);
  if (mode == "runtime") Runtime();
  if (mode == "names") ByName();
  if (mode == "recovers") Recover();
  if (mode == "smaller") Smaller();
  if (mode == "capture") Capture();
  if (mode == "child") Child();
  void* memory = nullptr;
  if (mode == "nccl") CHECK(ncclMemAlloc(&memory, kTooMuch) != ncclSuccess);
  if (mode == "refused") {
    CHECK(ncclAllReduce(nullptr, nullptr, 7, static_cast<ncclDataType_t>(77), ncclSum, world, nullptr) ==
          ncclInvalidArgument);
    NCCL(ncclGroupStart());
    CHECK(ncclBroadcast(nullptr, nullptr, 7, ncclFloat32, 5, world, nullptr) != ncclSuccess);
    CHECK(ncclGroupEnd() != ncclSuccess);
  }
  if (mode == "asynchronous") return Asynchronous(world);
  host::AllReduce(world, 65);
  host::Say("done");
  return 0;
}
