// Memory, copies and fills.
#include <cstring>

#include "tests/softgpu/cuda/runtime/call.h"

using softgpu::runtime::Address;
using softgpu::runtime::Call;
using softgpu::runtime::Note;
using softgpu::runtime::PerThread;

namespace {

CUmemorytype SourceType(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  bool device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}
CUmemorytype DestinationType(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  bool device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  return device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

// The most general copy of the driver, without arrays.
struct Shape {
  const void* from;
  size_t from_pitch;
  size_t from_height;
  void* to;
  size_t to_pitch;
  size_t to_height;
  size_t width;
  size_t height;
  size_t depth;
};

template <typename Copy3D>
cudaError_t Copy(const Shape& shape, cudaMemcpyKind kind, Copy3D copy) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return Note(cudaErrorInvalidMemcpyDirection);
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = SourceType(kind);
  p.srcHost = shape.from;
  p.srcDevice = Address(shape.from);
  p.srcPitch = shape.from_pitch;
  p.srcHeight = shape.from_height;
  p.dstMemoryType = DestinationType(kind);
  p.dstHost = shape.to;
  p.dstDevice = Address(shape.to);
  p.dstPitch = shape.to_pitch;
  p.dstHeight = shape.to_height;
  p.WidthInBytes = shape.width;
  p.Height = shape.height;
  p.Depth = shape.depth;
  return Call([&] { return copy(&p); });
}

Shape Line(void* to, const void* from, size_t size) { return {from, size, 1, to, size, 1, size, 1, 1}; }

Shape Box(const cudaMemcpy3DParms& p) {
  auto at = [](const cudaPitchedPtr& base, const cudaPos& position) {
    return static_cast<char*>(base.ptr) + position.x + position.y * base.pitch + position.z * base.pitch * base.ysize;
  };
  return {at(p.srcPtr, p.srcPos), p.srcPtr.pitch, p.srcPtr.ysize,  at(p.dstPtr, p.dstPos), p.dstPtr.pitch,
          p.dstPtr.ysize,         p.extent.width, p.extent.height, p.extent.depth};
}

CUresult Attributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  memset(attributes, 0, sizeof(*attributes));
  unsigned type = 0;
  unsigned managed = 0;
  int device = 0;
  CUdeviceptr on_device = 0;
  void* on_host = nullptr;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* answers[] = {&type, &managed, &device, &on_device, &on_host};
  CUresult result = cuPointerGetAttributes(5, asked, answers, Address(pointer));
  if (result != CUDA_SUCCESS) return result;
  attributes->device = device;
  attributes->devicePointer = reinterpret_cast<void*>(on_device);
  attributes->hostPointer = on_host;
  attributes->type = cudaMemoryTypeUnregistered;
  if (type == CU_MEMORYTYPE_HOST) attributes->type = cudaMemoryTypeHost;
  if (type == CU_MEMORYTYPE_DEVICE) attributes->type = cudaMemoryTypeDevice;
  if (managed != 0) attributes->type = cudaMemoryTypeManaged;
  if (type == 0) attributes->hostPointer = const_cast<void*>(pointer);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// Size 0 is allowed here, unlike in the driver: NULL comes back.
cudaError_t CUDARTAPI cudaMalloc(void** out, size_t size) {
  return Call([&]() -> CUresult {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    return size == 0 ? CUDA_SUCCESS : cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(out), size);
  });
}
cudaError_t CUDARTAPI cudaMallocManaged(void** out, size_t size, unsigned int flags) {
  return Call([&] { return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(out), size, flags); });
}
cudaError_t CUDARTAPI cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  return Call([&] { return cuMemAllocPitch_v2(reinterpret_cast<CUdeviceptr*>(out), pitch, width, height, 4); });
}
cudaError_t CUDARTAPI cudaFree(void* pointer) {
  return Call([&] { return cuMemFree_v2(Address(pointer)); });
}
cudaError_t CUDARTAPI cudaMallocHost(void** out, size_t size) {
  return Call([&] { return cuMemHostAlloc(out, size, 0); });
}
cudaError_t CUDARTAPI cudaHostAlloc(void** out, size_t size, unsigned int flags) {
  return Call([&] { return cuMemHostAlloc(out, size, flags); });
}
cudaError_t CUDARTAPI cudaFreeHost(void* pointer) {
  return Call([&] { return cuMemFreeHost(pointer); });
}
cudaError_t CUDARTAPI cudaHostRegister(void* pointer, size_t size, unsigned int flags) {
  return Call([&] { return cuMemHostRegister_v2(pointer, size, flags); });
}
cudaError_t CUDARTAPI cudaHostUnregister(void* pointer) {
  return Call([&] { return cuMemHostUnregister(pointer); });
}
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void** out, void* pointer, unsigned int flags) {
  return Call([&] { return cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(out), pointer, flags); });
}
cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int* flags, void* pointer) {
  return Call([&] { return cuMemHostGetFlags(flags, pointer); });
}
cudaError_t CUDARTAPI cudaMemGetInfo(size_t* available, size_t* total) {
  return Call([&] { return cuMemGetInfo_v2(available, total); });
}
cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return Call([&] { return Attributes(attributes, pointer); });
}

cudaError_t CUDARTAPI cudaMallocAsync(void** out, size_t size, cudaStream_t stream) {
  return Call([&] { return cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(out), size, stream); });
}
cudaError_t CUDARTAPI cudaMallocAsync_ptsz(void** out, size_t size, cudaStream_t stream) {
  return cudaMallocAsync(out, size, PerThread(stream));
}
cudaError_t CUDARTAPI cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return Call([&] { return cuMemFreeAsync(Address(pointer), stream); });
}
cudaError_t CUDARTAPI cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  return cudaFreeAsync(pointer, PerThread(stream));
}

cudaError_t CUDARTAPI cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  return Copy(Line(to, from, size), kind, cuMemcpy3D_v2);
}
cudaError_t CUDARTAPI cudaMemcpy_ptds(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  return Copy(Line(to, from, size), kind, cuMemcpy3D_v2_ptds);
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return Copy(Line(to, from, size), kind, [&](const CUDA_MEMCPY3D* p) { return cuMemcpy3DAsync_v2(p, stream); });
}
cudaError_t CUDARTAPI cudaMemcpyAsync_ptsz(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, size, kind, PerThread(stream));
}
cudaError_t CUDARTAPI cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
  return cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice);
}
cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t CUDARTAPI cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                   size_t height, cudaMemcpyKind kind) {
  return Copy({from, from_pitch, height, to, to_pitch, height, width, height, 1}, kind, cuMemcpy3D_v2);
}
cudaError_t CUDARTAPI cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                        size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return Copy({from, from_pitch, height, to, to_pitch, height, width, height, 1}, kind,
              [&](const CUDA_MEMCPY3D* p) { return cuMemcpy3DAsync_v2(p, stream); });
}
cudaError_t CUDARTAPI cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  if (p == nullptr) return Note(cudaErrorInvalidValue);
  if (p->srcArray != nullptr || p->dstArray != nullptr) return Note(cudaErrorNotSupported);
  return Copy(Box(*p), p->kind, cuMemcpy3D_v2);
}
cudaError_t CUDARTAPI cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  if (p == nullptr) return Note(cudaErrorInvalidValue);
  if (p->srcArray != nullptr || p->dstArray != nullptr) return Note(cudaErrorNotSupported);
  return Copy(Box(*p), p->kind, [&](const CUDA_MEMCPY3D* q) { return cuMemcpy3DAsync_v2(q, stream); });
}

cudaError_t CUDARTAPI cudaMemset(void* to, int value, size_t size) {
  return Call([&] { return cuMemsetD8_v2(Address(to), static_cast<unsigned char>(value), size); });
}
cudaError_t CUDARTAPI cudaMemset_ptds(void* to, int value, size_t size) {
  return Call([&] { return cuMemsetD8_v2_ptds(Address(to), static_cast<unsigned char>(value), size); });
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  return Call([&] { return cuMemsetD8Async(Address(to), static_cast<unsigned char>(value), size, stream); });
}
cudaError_t CUDARTAPI cudaMemsetAsync_ptsz(void* to, int value, size_t size, cudaStream_t stream) {
  return cudaMemsetAsync(to, value, size, PerThread(stream));
}
cudaError_t CUDARTAPI cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return Call([&] { return cuMemsetD2D8_v2(Address(to), pitch, static_cast<unsigned char>(value), width, height); });
}
cudaError_t CUDARTAPI cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                                        cudaStream_t stream) {
  return Call(
      [&] { return cuMemsetD2D8Async(Address(to), pitch, static_cast<unsigned char>(value), width, height, stream); });
}

// Memory of one process cannot be opened in another here.
cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return Note(cudaErrorNotSupported); }
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) {
  return Note(cudaErrorNotSupported);
}
cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void*) { return Note(cudaErrorNotSupported); }
cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) { return Note(cudaErrorNotSupported); }
cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) { return Note(cudaErrorNotSupported); }

}  // extern "C"
