// A libcuda with one context, whose streams do everything at once, and which counts the marks that it writes.
#include <cuda.h>

#include <cstddef>

namespace {
CUcontext const context = reinterpret_cast<CUcontext>(0x10);
constexpr CUdevice kDevice = 3;  // where the fake libnccl's communicators say that they are
}  // namespace

extern "C" {
int FakeMarksWritten = 0;
void (*FakeOnMark)() = nullptr;  // runs inside every mark's call, before the mark is written
bool FakeStreamStuck = false;    // marks are taken, and never written
bool FakeMarksRefused = false;   // ... nor taken
bool FakeCapturing = false;

CUresult cuCtxGetCurrent(CUcontext* current) {
  *current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext*) { return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = kDevice;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* primary, CUdevice) {
  *primary = context;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
CUresult cuMemHostRegister_v2(void*, std::size_t, unsigned) { return CUDA_SUCCESS; }
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = FakeCapturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamWriteValue64_v2(CUstream, CUdeviceptr address, cuuint64_t value, unsigned) {
  if (FakeMarksRefused) return CUDA_ERROR_NOT_SUPPORTED;
  if (FakeOnMark) FakeOnMark();
  if (FakeStreamStuck) return CUDA_SUCCESS;
  ++FakeMarksWritten;
  __atomic_store_n(reinterpret_cast<cuuint64_t*>(address), value, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}
}
