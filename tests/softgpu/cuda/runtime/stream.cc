// Streams, events and what runs on them.
#include "tests/softgpu/cuda/newer.h"
#include "tests/softgpu/cuda/runtime/call.h"

using softgpu::runtime::Call;
using softgpu::runtime::Note;
using softgpu::runtime::PerThread;

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* out) {
  return Call([&] { return cuStreamCreate(out, 0); });
}
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* out, unsigned int flags) {
  return Call([&] { return cuStreamCreate(out, flags); });
}
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* out, unsigned int flags, int priority) {
  return Call([&] { return cuStreamCreateWithPriority(out, flags, priority); });
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  return Call([&] { return cuStreamDestroy_v2(stream); });
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  return Call([&] { return cuStreamSynchronize(stream); });
}
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  return Call([&] { return cuStreamQuery(stream); });
}
cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return Call([&] { return cuStreamGetPriority(stream, priority); });
}
cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  return Call([&] { return cuStreamGetFlags(stream, flags); });
}
cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return Call([&] { return cuStreamGetId(stream, id); });
}
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return Call([&] { return cuStreamGetDevice(stream, device); });
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return Call([&] { return cuStreamWaitEvent(stream, event, flags); });
}
cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                            unsigned int flags) {
  // The two callback types differ in the name of the status' enumeration only; its numbers are the same.
  return Call([&] { return cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags); });
}
cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return Call([&] { return cuLaunchHostFunc(stream, function, data); });
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* out) {
  return Call([&] { return cuEventCreate(out, 0); });
}
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* out, unsigned int flags) {
  return Call([&] { return cuEventCreate(out, flags); });
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  return Call([&] { return cuEventDestroy_v2(event); });
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Call([&] { return cuEventRecord(event, stream); });
}
cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return Call([&] { return cuEventRecordWithFlags(event, stream, flags); });
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  return Call([&] { return cuEventQuery(event); });
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  return Call([&] { return cuEventSynchronize(event); });
}
cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Call([&] { return cuEventElapsedTime(milliseconds, start, end); });
}
// The name that headers from CUDA 12.8 to the last of 12 use.
cudaError_t CUDARTAPI cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}

cudaError_t CUDARTAPI cudaStreamSynchronize_ptsz(cudaStream_t s) { return cudaStreamSynchronize(PerThread(s)); }
cudaError_t CUDARTAPI cudaStreamQuery_ptsz(cudaStream_t s) { return cudaStreamQuery(PerThread(s)); }
cudaError_t CUDARTAPI cudaStreamGetPriority_ptsz(cudaStream_t s, int* priority) {
  return cudaStreamGetPriority(PerThread(s), priority);
}
cudaError_t CUDARTAPI cudaStreamGetFlags_ptsz(cudaStream_t s, unsigned int* flags) {
  return cudaStreamGetFlags(PerThread(s), flags);
}
cudaError_t CUDARTAPI cudaStreamGetId_ptsz(cudaStream_t s, unsigned long long* id) {
  return cudaStreamGetId(PerThread(s), id);
}
cudaError_t CUDARTAPI cudaStreamGetDevice_ptsz(cudaStream_t s, int* device) {
  return cudaStreamGetDevice(PerThread(s), device);
}
cudaError_t CUDARTAPI cudaStreamWaitEvent_ptsz(cudaStream_t s, cudaEvent_t event, unsigned int flags) {
  return cudaStreamWaitEvent(PerThread(s), event, flags);
}
cudaError_t CUDARTAPI cudaStreamAddCallback_ptsz(cudaStream_t s, cudaStreamCallback_t callback, void* data,
                                                 unsigned int flags) {
  return cudaStreamAddCallback(PerThread(s), callback, data, flags);
}
cudaError_t CUDARTAPI cudaLaunchHostFunc_ptsz(cudaStream_t s, cudaHostFn_t function, void* data) {
  return cudaLaunchHostFunc(PerThread(s), function, data);
}
cudaError_t CUDARTAPI cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t s) {
  return cudaEventRecord(event, PerThread(s));
}
cudaError_t CUDARTAPI cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t s, unsigned int flags) {
  return cudaEventRecordWithFlags(event, PerThread(s), flags);
}

// Device code does not run here; programs that contain some can start, and are told when they launch it.
cudaError_t CUDARTAPI cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return Note(cudaErrorNotSupported);
}
cudaError_t CUDARTAPI cudaLaunchKernel_ptsz(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return Note(cudaErrorNotSupported);
}
cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return Note(cudaErrorNotSupported);
}
cudaError_t CUDARTAPI cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t*, const void*, void**) {
  return Note(cudaErrorNotSupported);
}
cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes*, const void*) {
  return Note(cudaErrorInvalidDeviceFunction);
}
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return Note(cudaErrorInvalidDeviceFunction);
}
void** CUDARTAPI __cudaRegisterFatBinary(void* binary) {
  static void* handles[1];
  handles[0] = binary;
  return handles;
}
void CUDARTAPI __cudaRegisterFatBinaryEnd(void**) {}
void CUDARTAPI __cudaUnregisterFatBinary(void**) {}
void CUDARTAPI __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*,
                                      int*) {}
void CUDARTAPI __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
unsigned CUDARTAPI __cudaPushCallConfiguration(dim3, dim3, size_t, CUstream_st*) { return 0; }
cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaSuccess; }

}  // extern "C"
