// Questions about addresses.
#include <cuda.h>

#include <cstring>

#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/memory.h"
#include "tests/softgpu/cuda/driver/process.h"

using softgpu::Block;

namespace {

template <typename T>
CUresult Answer(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

CUresult AnswerFor(const Block& block, CUdeviceptr address, CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return Answer(data, block.context->handle());
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Answer<unsigned>(data, block.on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return Answer(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (block.kind == Block::Kind::kDevice) return CUDA_ERROR_INVALID_VALUE;
      return Answer(data, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return Answer<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return Answer<unsigned long long>(data, block.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return Answer<unsigned>(data, block.kind == Block::Kind::kManaged);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return Answer<int>(data, block.context->device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return Answer<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return Answer(data, block.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return Answer(data, block.size);
    case CU_POINTER_ATTRIBUTE_MAPPED: return Answer<unsigned>(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return Answer<unsigned long long>(data, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return Answer<unsigned>(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return Answer<void*>(data, nullptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

size_t SizeOf(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return 4;
    default: return 8;
  }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  SOFTGPU_TRY(softgpu::Enter());
  Block block;
  if (data == nullptr || !softgpu::FindBlock(address, 1, &block)) return CUDA_ERROR_INVALID_VALUE;
  return AnswerFor(block, address, attribute, data);
}

// Unlike the singular, this one answers zeros for an address that nobody knows, and for what does not apply; the
// ordinal is then CU_DEVICE_INVALID.
CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                        CUdeviceptr address) {
  SOFTGPU_TRY(softgpu::Enter());
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Block block;
  bool known = softgpu::FindBlock(address, 1, &block);
  for (unsigned i = 0; i < count; ++i) {
    if (known && AnswerFor(block, address, attributes[i], data[i]) == CUDA_SUCCESS) continue;
    memset(data[i], 0, SizeOf(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) Answer<int>(data[i], CU_DEVICE_INVALID);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  SOFTGPU_TRY(softgpu::Enter());
  Block block;
  // The only attribute that can be set asks for what holds here anyway: synchronous copies are synchronous.
  bool settable = attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
  return value != nullptr && settable && softgpu::FindBlock(address, 1, &block) ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  SOFTGPU_TRY(softgpu::Enter());
  softgpu::Context* current = nullptr;
  SOFTGPU_TRY(softgpu::NeedContext(&current));
  softgpu::Context* other = softgpu::FindContext(peer);
  if (other == nullptr || other == current) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return current->SetPeer(other, true) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  SOFTGPU_TRY(softgpu::Enter());
  softgpu::Context* current = nullptr;
  SOFTGPU_TRY(softgpu::NeedContext(&current));
  softgpu::Context* other = softgpu::FindContext(peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return current->SetPeer(other, false) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // extern "C"
