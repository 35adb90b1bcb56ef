// Every range of addresses the devices may touch, and whose it is.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace softgpu {

class Context;

struct Block {
  enum class Kind { kDevice, kPinned, kRegistered, kManaged };
  uintptr_t base;
  size_t size;
  Kind kind;
  Context* context;
  unsigned flags;
  uint64_t id;

  bool on_host() const { return kind == Kind::kPinned || kind == Kind::kRegistered; }
};

// The block that holds all of [address, address + size). False where there is none. Thread-safe.
bool FindBlock(uintptr_t address, size_t size, Block* block);

CUresult AllocateDevice(Context* context, size_t size, CUdeviceptr* out, Block::Kind kind);

// CUDA_ERROR_INVALID_VALUE where the address is not the base of a block of device or managed memory. Does not wait.
CUresult FreeDevice(CUdeviceptr address);

void FreeAllOf(Context* context);

}  // namespace softgpu
