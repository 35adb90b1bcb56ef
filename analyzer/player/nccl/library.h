// NCCL and the CUDA driver, opened by name: the command runs on machines that have neither.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <nccl.h>

#include <string>

namespace ncclwatch::analyzer {

// clang-format off
#define NCCLWATCH_CUDA_FUNCTIONS(F)                                       \
  F(cuInit, cuInit)                                                       \
  F(cuDeviceGet, cuDeviceGet)                                             \
  F(cuDeviceGetCount, cuDeviceGetCount)                                   \
  F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                   \
  F(cuCtxSetCurrent, cuCtxSetCurrent)                                     \
  F(cuStreamCreate, cuStreamCreate)                                       \
  F(cuStreamSynchronize, cuStreamSynchronize)                             \
  F(cuMemAlloc, cuMemAlloc_v2)                                            \
  F(cuMemcpyHtoD, cuMemcpyHtoD_v2)                                        \
  F(cuMemcpyDtoH, cuMemcpyDtoH_v2)                                        \
  F(cuEventCreate, cuEventCreate)                                         \
  F(cuEventRecord, cuEventRecord)                                         \
  F(cuEventQuery, cuEventQuery)                                           \
  F(cuEventElapsedTime, cuEventElapsedTime)                               \
  F(cuEventDestroy, cuEventDestroy_v2)                                    \
  F(cuLaunchHostFunc, cuLaunchHostFunc)
#define NCCLWATCH_NCCL_FUNCTIONS(F)                                       \
  F(ncclGetUniqueId) F(ncclGetErrorString) F(ncclRedOpCreatePreMulSum)    \
  F(ncclCommInitRank) F(ncclCommDestroy) F(ncclCommFinalize)              \
  F(ncclCommAbort) F(ncclGroupStart) F(ncclGroupEnd)                      \
  F(ncclAllReduce) F(ncclBroadcast) F(ncclBcast) F(ncclReduce)            \
  F(ncclReduceScatter) F(ncclAllGather) F(ncclSend) F(ncclRecv)
// clang-format on

// NOLINTBEGIN(bugprone-macro-parentheses): names are declared
struct Library {
#define NCCLWATCH_DECLARE_CUDA(name, symbol) decltype(&::name) name = nullptr;
#define NCCLWATCH_DECLARE_NCCL(name) decltype(&::name) name = nullptr;
  NCCLWATCH_CUDA_FUNCTIONS(NCCLWATCH_DECLARE_CUDA)
  NCCLWATCH_NCCL_FUNCTIONS(NCCLWATCH_DECLARE_NCCL)
#undef NCCLWATCH_DECLARE_CUDA
#undef NCCLWATCH_DECLARE_NCCL
  // An older library lacks it.
  ncclResult_t (*ncclCommSplit)(ncclComm_t, int, int, ncclComm_t*, void*) = nullptr;

  // What is missing; empty: nothing.
  std::string Open() {
    void* const cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void* const nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (!cuda || !nccl) return dlerror();
#define NCCLWATCH_FIND_CUDA(name, symbol)                        \
  name = reinterpret_cast<decltype(name)>(dlsym(cuda, #symbol)); \
  if (!name) return "libcuda.so.1 lacks " #symbol;
#define NCCLWATCH_FIND_NCCL(name)                                  \
  name = reinterpret_cast<decltype(name)>(Preloaded(nccl, #name)); \
  if (!name) return "libnccl.so.2 lacks " #name;
    NCCLWATCH_CUDA_FUNCTIONS(NCCLWATCH_FIND_CUDA)
    NCCLWATCH_NCCL_FUNCTIONS(NCCLWATCH_FIND_NCCL)
#undef NCCLWATCH_FIND_CUDA
#undef NCCLWATCH_FIND_NCCL
    ncclCommSplit = reinterpret_cast<decltype(ncclCommSplit)>(Preloaded(nccl, "ncclCommSplit"));
    return "";
  }

  // What a program that is linked with NCCL would call: what is preloaded comes first.
  static void* Preloaded(void* library, const char* name) {
    void* const first = dlsym(RTLD_DEFAULT, name);
    return first ? first : dlsym(library, name);
  }
};
// NOLINTEND(bugprone-macro-parentheses)

#undef NCCLWATCH_CUDA_FUNCTIONS
#undef NCCLWATCH_NCCL_FUNCTIONS

}  // namespace ncclwatch::analyzer
