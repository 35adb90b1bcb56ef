// What holds for the whole process: whether the driver may be used, and the settings from the environment.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

namespace softgpu {

struct Settings {
  std::vector<int> visible;  // physical index of each device, in the order of its ordinal
  size_t memory_bytes;       // per device
  bool memory_operations;    // cuStreamWriteValue and its kin
  bool host_register;        // cuMemHostRegister
};

// Read once, at the first use. SOFTGPU_DEVICES, SOFTGPU_MEMORY (with K, M or G), SOFTGPU_NO_MEMOPS,
// SOFTGPU_NO_HOST_REGISTER, CUDA_VISIBLE_DEVICES (indices only).
const Settings& GetSettings();

CUresult InitialiseProcess();

// CUDA_SUCCESS where the calling thread may use the driver: initialised in this very process (a fork child is told
// CUDA_ERROR_NOT_INITIALIZED, as by the real driver) and not inside a host function (CUDA_ERROR_NOT_PERMITTED).
// Takes no lock, so that a fork child cannot block here.
CUresult Enter();

// Marks the calling thread as running a host function for the scope's life.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

}  // namespace softgpu

#define SOFTGPU_TRY(expression)                                                   \
  do {                                                                            \
    if (CUresult result_ = (expression); result_ != CUDA_SUCCESS) return result_; \
  } while (0)
