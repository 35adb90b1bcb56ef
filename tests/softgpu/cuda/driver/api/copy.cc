// The copies and fills of the driver API. Each comes in up to four names: _v2 where a first, 32-bit form existed, and
// for each of these one whose default stream is the per-thread one (_ptds, _ptsz).
#include <cuda.h>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/copy.h"
#include "tests/softgpu/cuda/driver/memory.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/submit.h"

using softgpu::Box;
using softgpu::CopyAsync;
using softgpu::CopySync;
using softgpu::PerThread;
using softgpu::Side;

namespace {

uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

CUresult AddressOf(CUmemorytype type, const void* host, CUdeviceptr device, uintptr_t* address, Side* side) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      *address = Address(host);
      *side = Side::kHost;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
      *address = device;
      *side = Side::kDevice;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      *address = device;
      *side = Side::kEither;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;  // arrays
  }
}

struct Copy {
  Box box;
  Side to;
  Side from;
};

// Shared by CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, which name these fields alike.
template <typename Parameters>
CUresult From3D(const Parameters* p, Copy* copy) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t from = 0;
  uintptr_t to = 0;
  SOFTGPU_TRY(AddressOf(p->srcMemoryType, p->srcHost, p->srcDevice, &from, &copy->from));
  SOFTGPU_TRY(AddressOf(p->dstMemoryType, p->dstHost, p->dstDevice, &to, &copy->to));
  size_t from_pitch = p->srcPitch != 0 ? p->srcPitch : p->WidthInBytes;
  size_t to_pitch = p->dstPitch != 0 ? p->dstPitch : p->WidthInBytes;
  size_t from_slice = from_pitch * (p->srcHeight != 0 ? p->srcHeight : p->Height);
  size_t to_slice = to_pitch * (p->dstHeight != 0 ? p->dstHeight : p->Height);
  if (from_pitch < p->WidthInBytes || to_pitch < p->WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
  copy->box = {.to = to + p->dstXInBytes + p->dstY * to_pitch + p->dstZ * to_slice,
               .from = from + p->srcXInBytes + p->srcY * from_pitch + p->srcZ * from_slice,
               .width = p->WidthInBytes,
               .height = p->Height,
               .depth = p->Depth,
               .to_pitch = to_pitch,
               .from_pitch = from_pitch,
               .to_slice = to_slice,
               .from_slice = from_slice};
  return CUDA_SUCCESS;
}

CUresult From2D(const CUDA_MEMCPY2D* p, Copy* copy) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D full{};
  full.srcXInBytes = p->srcXInBytes;
  full.srcY = p->srcY;
  full.srcMemoryType = p->srcMemoryType;
  full.srcHost = p->srcHost;
  full.srcDevice = p->srcDevice;
  full.srcPitch = p->srcPitch;
  full.dstXInBytes = p->dstXInBytes;
  full.dstY = p->dstY;
  full.dstMemoryType = p->dstMemoryType;
  full.dstHost = p->dstHost;
  full.dstDevice = p->dstDevice;
  full.dstPitch = p->dstPitch;
  full.WidthInBytes = p->WidthInBytes;
  full.Height = p->Height;
  full.Depth = 1;
  return From3D(&full, copy);
}

template <typename Parameters, typename Convert>
CUresult Run(const Parameters* parameters, Convert convert, CUstream stream, bool wait) {
  Copy copy{};
  SOFTGPU_TRY(convert(parameters, &copy));
  return wait ? CopySync(copy.box, copy.to, copy.from, stream) : CopyAsync(copy.box, copy.to, copy.from, stream);
}

CUresult Sync(uintptr_t to, Side to_side, uintptr_t from, Side from_side, size_t size, CUstream stream) {
  return CopySync({.to = to, .from = from, .width = size}, to_side, from_side, stream);
}
CUresult Async(uintptr_t to, Side to_side, uintptr_t from, Side from_side, size_t size, CUstream stream) {
  return CopyAsync({.to = to, .from = from, .width = size}, to_side, from_side, stream);
}

}  // namespace

extern "C" {

// NAME, then the form whose default stream is the per-thread one.
#define SOFTGPU_SYNC_COPY(NAME, PTDS, TO, TO_VALUE, TO_SIDE, FROM, FROM_VALUE, FROM_SIDE)          \
  CUresult CUDAAPI NAME(TO to, FROM from, size_t size) {                                           \
    return Sync(TO_VALUE, Side::TO_SIDE, FROM_VALUE, Side::FROM_SIDE, size, nullptr);              \
  }                                                                                                \
  CUresult CUDAAPI PTDS(TO to, FROM from, size_t size) {                                           \
    return Sync(TO_VALUE, Side::TO_SIDE, FROM_VALUE, Side::FROM_SIDE, size, CU_STREAM_PER_THREAD); \
  }
#define SOFTGPU_ASYNC_COPY(NAME, PTSZ, TO, TO_VALUE, TO_SIDE, FROM, FROM_VALUE, FROM_SIDE)       \
  CUresult CUDAAPI NAME(TO to, FROM from, size_t size, CUstream stream) {                        \
    return Async(TO_VALUE, Side::TO_SIDE, FROM_VALUE, Side::FROM_SIDE, size, stream);            \
  }                                                                                              \
  CUresult CUDAAPI PTSZ(TO to, FROM from, size_t size, CUstream stream) {                        \
    return Async(TO_VALUE, Side::TO_SIDE, FROM_VALUE, Side::FROM_SIDE, size, PerThread(stream)); \
  }

SOFTGPU_SYNC_COPY(cuMemcpy, cuMemcpy_ptds, CUdeviceptr, to, kEither, CUdeviceptr, from, kEither)
SOFTGPU_SYNC_COPY(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, CUdeviceptr, to, kDevice, const void*, Address(from), kHost)
SOFTGPU_SYNC_COPY(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, void*, Address(to), kHost, CUdeviceptr, from, kDevice)
SOFTGPU_SYNC_COPY(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, CUdeviceptr, to, kDevice, CUdeviceptr, from, kDevice)
SOFTGPU_ASYNC_COPY(cuMemcpyAsync, cuMemcpyAsync_ptsz, CUdeviceptr, to, kEither, CUdeviceptr, from, kEither)
SOFTGPU_ASYNC_COPY(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, CUdeviceptr, to, kDevice, const void*,
                   Address(from), kHost)
SOFTGPU_ASYNC_COPY(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, void*, Address(to), kHost, CUdeviceptr, from,
                   kDevice)
SOFTGPU_ASYNC_COPY(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, CUdeviceptr, to, kDevice, CUdeviceptr, from,
                   kDevice)

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return cuMemcpyDtoD_v2(to, from, size);
}
CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return cuMemcpyDtoD_v2_ptds(to, from, size);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                                   CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, size, stream);
}
CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                                        CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, size, PerThread(stream));
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) { return Run(p, From2D, nullptr, true); }
CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) { return Run(p, From2D, nullptr, true); }
CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* p) { return Run(p, From2D, CU_STREAM_PER_THREAD, true); }
CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* p) {
  return Run(p, From2D, CU_STREAM_PER_THREAD, true);
}
CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream stream) { return Run(p, From2D, stream, false); }
CUresult CUDAAPI cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* p, CUstream stream) {
  return Run(p, From2D, PerThread(stream), false);
}
CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) { return Run(p, From3D<CUDA_MEMCPY3D>, nullptr, true); }
CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* p) {
  return Run(p, From3D<CUDA_MEMCPY3D>, CU_STREAM_PER_THREAD, true);
}
CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream stream) {
  return Run(p, From3D<CUDA_MEMCPY3D>, stream, false);
}
CUresult CUDAAPI cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* p, CUstream stream) {
  return Run(p, From3D<CUDA_MEMCPY3D>, PerThread(stream), false);
}
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* p) {
  return Run(p, From3D<CUDA_MEMCPY3D_PEER>, nullptr, true);
}
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* p, CUstream stream) {
  return Run(p, From3D<CUDA_MEMCPY3D_PEER>, stream, false);
}

#define SOFTGPU_FILL(BITS, TYPE)                                                                                   \
  CUresult CUDAAPI cuMemsetD##BITS##_v2(CUdeviceptr to, TYPE value, size_t n) {                                    \
    return softgpu::FillSync({to, 0, value, sizeof(TYPE), n}, nullptr);                                            \
  }                                                                                                                \
  CUresult CUDAAPI cuMemsetD##BITS##_v2_ptds(CUdeviceptr to, TYPE value, size_t n) {                               \
    return softgpu::FillSync({to, 0, value, sizeof(TYPE), n}, CU_STREAM_PER_THREAD);                               \
  }                                                                                                                \
  CUresult CUDAAPI cuMemsetD##BITS##Async(CUdeviceptr to, TYPE value, size_t n, CUstream stream) {                 \
    return softgpu::FillAsync({to, 0, value, sizeof(TYPE), n}, stream);                                            \
  }                                                                                                                \
  CUresult CUDAAPI cuMemsetD##BITS##Async_ptsz(CUdeviceptr to, TYPE value, size_t n, CUstream stream) {            \
    return softgpu::FillAsync({to, 0, value, sizeof(TYPE), n}, PerThread(stream));                                 \
  }                                                                                                                \
  CUresult CUDAAPI cuMemsetD2D##BITS##_v2(CUdeviceptr to, size_t pitch, TYPE value, size_t width, size_t height) { \
    return softgpu::FillSync({to, pitch, value, sizeof(TYPE), width, height}, nullptr);                            \
  }                                                                                                                \
  CUresult CUDAAPI cuMemsetD2D##BITS##Async(CUdeviceptr to, size_t pitch, TYPE value, size_t width, size_t height, \
                                            CUstream stream) {                                                     \
    return softgpu::FillAsync({to, pitch, value, sizeof(TYPE), width, height}, stream);                            \
  }
SOFTGPU_FILL(8, unsigned char)
SOFTGPU_FILL(16, unsigned short)
SOFTGPU_FILL(32, unsigned int)

// Stream-ordered allocation: the memory is there at once and goes when the stream gets to the free.
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream handle) {
  SOFTGPU_TRY(softgpu::Enter());
  std::shared_ptr<softgpu::Stream> stream;
  SOFTGPU_TRY(softgpu::FindStream(handle, &stream));
  SOFTGPU_TRY(softgpu::GuardCallback(stream));  // allocation nodes are not supported
  return softgpu::AllocateDevice(stream->context, size, out, softgpu::Block::Kind::kDevice);
}
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  SOFTGPU_TRY(softgpu::Enter());
  std::shared_ptr<softgpu::Stream> stream;
  SOFTGPU_TRY(softgpu::FindStream(handle, &stream));
  SOFTGPU_TRY(softgpu::GuardCallback(stream));
  softgpu::Block block;
  if (!softgpu::FindBlock(address, 1, &block) || block.base != address || block.on_host()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  softgpu::Enqueue(
      stream, [address] { softgpu::FreeDevice(address); }, true);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t size, CUstream stream) {
  return cuMemAllocAsync(out, size, PerThread(stream));
}
CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return cuMemFreeAsync(address, PerThread(stream));
}

}  // extern "C"
