// softgpu's own libcuda.so.1, found by its place beside this library and used by handle only: a process may well have
// another libcuda or a CUDA runtime loaded (a CUDA build of torch does), whose symbols must not be taken for it.
#ifndef SOFTGPU_NCCL_DRIVER_H_
#define SOFTGPU_NCCL_DRIVER_H_

#include <cuda.h>

namespace softgpu {

struct Driver {
  CUresult (*init)(unsigned flags);
  CUresult (*device_count)(int* count);
  CUresult (*context_get)(CUcontext* context);
  CUresult (*context_set)(CUcontext context);
  CUresult (*context_device)(CUdevice* device);
  CUresult (*primary_retain)(CUcontext* context, CUdevice device);
  CUresult (*memory_alloc)(CUdeviceptr* pointer, size_t bytes);
  CUresult (*memory_free)(CUdeviceptr pointer);
  CUresult (*stream_capturing)(CUstream stream, CUstreamCaptureStatus* status);
  CUresult (*enqueue)(CUstream stream, void (*run)(void*), void* argument, void (*destroy)(void*));
};

// nullptr if there is no usable libcuda.so.1 beside this library; the reason is then in LastError().
const Driver* GetDriver();

// The device current in this thread, as the CUDA runtime understands it: device 0 where none was chosen. False on
// error.
bool CurrentDevice(int* device);

// The primary context of a device, retained once in the life of the process. nullptr on error.
CUcontext PrimaryContext(int device);

// Makes `context` current for the life of this object.
class ScopedContext {
 public:
  explicit ScopedContext(CUcontext context);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  CUcontext previous_ = nullptr;
  bool changed_ = false;
};

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_DRIVER_H_
