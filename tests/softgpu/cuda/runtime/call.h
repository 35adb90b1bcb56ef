// What every function of the runtime does around its call of the driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace softgpu::runtime {

// Keeps the error for cudaGetLastError of this thread, and returns it. The numbers of both APIs are the same.
cudaError_t Note(CUresult result);
cudaError_t Note(cudaError_t error);

// The driver initialised and a context current in this thread: what it has, else the primary one of the device chosen.
CUresult MakeReady();

// Only the driver initialised.
CUresult MakeInitialised();

template <typename F>
cudaError_t Call(F function) {
  CUresult result = MakeReady();
  return Note(result == CUDA_SUCCESS ? function() : result);
}

template <typename F>
cudaError_t CallWithoutContext(F function) {
  CUresult result = MakeInitialised();
  return Note(result == CUDA_SUCCESS ? function() : result);
}

// Makes the device's primary context the current one.
CUresult UseDevice(int device);

inline cudaStream_t PerThread(cudaStream_t stream) { return stream == nullptr ? cudaStreamPerThread : stream; }
inline CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace softgpu::runtime
