#include "tests/softgpu/cuda/driver/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/device.h"
#include "tests/softgpu/cuda/driver/process.h"

namespace softgpu {
namespace {

struct Blocks {
  std::shared_mutex mutex;
  std::map<uintptr_t, Block> by_base;
  uint64_t last_id = 0;
};

Blocks& TheBlocks() {
  static Blocks& blocks = *new Blocks;
  return blocks;
}

// With the mutex held.
bool Overlaps(const Blocks& blocks, uintptr_t base, size_t size) {
  auto next = blocks.by_base.lower_bound(base);
  if (next != blocks.by_base.end() && next->first < base + size) return true;
  if (next == blocks.by_base.begin()) return false;
  const Block& before = std::prev(next)->second;
  return before.base + before.size > base;
}

void Add(uintptr_t base, size_t size, Block::Kind kind, Context* context, unsigned flags) {
  Blocks& blocks = TheBlocks();
  std::unique_lock lock(blocks.mutex);
  blocks.by_base[base] = {base, size, kind, context, flags, ++blocks.last_id};
}

size_t PageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
size_t WholePages(size_t size) { return (size + PageSize() - 1) / PageSize() * PageSize(); }

// Pages of their own: fresh memory is zero, costs nothing until touched, and a use after free is a crash, not a riddle.
void* MapPages(size_t size) {
  void* address =
      mmap(nullptr, WholePages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void Release(const Block& block) {
  if (block.kind != Block::Kind::kRegistered) munmap(reinterpret_cast<void*>(block.base), WholePages(block.size));
  if (!block.on_host()) GiveMemoryBack(block.context->device, block.size);
}

// Takes the block with this base out if it is of the kind wanted.
template <typename Wanted>
bool TakeOut(uintptr_t base, Wanted wanted, Block* out) {
  Blocks& blocks = TheBlocks();
  std::unique_lock lock(blocks.mutex);
  auto found = blocks.by_base.find(base);
  if (found == blocks.by_base.end() || !wanted(found->second)) return false;
  *out = found->second;
  blocks.by_base.erase(found);
  return true;
}

CUresult AllocateHost(void** out, size_t size, unsigned flags) {
  SOFTGPU_TRY(Enter());
  Context* context = nullptr;
  SOFTGPU_TRY(NeedContext(&context));
  SOFTGPU_TRY(GuardUnsafe());
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* memory = MapPages(size);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Add(reinterpret_cast<uintptr_t>(memory), size, Block::Kind::kPinned, context, flags);
  *out = memory;
  return CUDA_SUCCESS;
}

// By a call that services may make (systemd's @system-service); mincore() is none.
bool IsMapped(uintptr_t base, size_t size) {
  uintptr_t first = base & ~(PageSize() - 1);
  return msync(reinterpret_cast<void*>(first), base + size - first, MS_ASYNC) == 0;
}

}  // namespace

bool FindBlock(uintptr_t address, size_t size, Block* out) {
  Blocks& blocks = TheBlocks();
  std::shared_lock lock(blocks.mutex);
  auto next = blocks.by_base.upper_bound(address);
  if (next == blocks.by_base.begin()) return false;
  const Block& block = std::prev(next)->second;
  if (address - block.base >= block.size || size > block.size - (address - block.base)) return false;
  *out = block;
  return true;
}

CUresult AllocateDevice(Context* context, size_t size, CUdeviceptr* out, Block::Kind kind) {
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!TakeMemory(context->device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = MapPages(size);
  if (memory == nullptr) {
    GiveMemoryBack(context->device, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = reinterpret_cast<CUdeviceptr>(memory);
  Add(*out, size, kind, context, 0);
  return CUDA_SUCCESS;
}

CUresult FreeDevice(CUdeviceptr address) {
  Block block;
  if (!TakeOut(
          address, [](const Block& b) { return !b.on_host(); }, &block))
    return CUDA_ERROR_INVALID_VALUE;
  Release(block);
  return CUDA_SUCCESS;
}

void FreeAllOf(Context* context) {
  Blocks& blocks = TheBlocks();
  std::vector<Block> mine;
  {
    std::unique_lock lock(blocks.mutex);
    std::erase_if(blocks.by_base, [&](const auto& entry) {
      if (entry.second.context == context) mine.push_back(entry.second);
      return entry.second.context == context;
    });
  }
  for (const Block& block : mine) Release(block);
}

}  // namespace softgpu

using softgpu::Block;
using softgpu::Context;
using softgpu::Enter;
using softgpu::FindBlock;
using softgpu::GuardUnsafe;
using softgpu::NeedContext;

extern "C" {

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* out, size_t size) {
  SOFTGPU_TRY(Enter());
  Context* context = nullptr;
  SOFTGPU_TRY(NeedContext(&context));
  SOFTGPU_TRY(GuardUnsafe());
  return softgpu::AllocateDevice(context, size, out, Block::Kind::kDevice);
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* out, size_t size, unsigned int) {
  SOFTGPU_TRY(Enter());
  Context* context = nullptr;
  SOFTGPU_TRY(NeedContext(&context));
  SOFTGPU_TRY(GuardUnsafe());
  return softgpu::AllocateDevice(context, size, out, Block::Kind::kManaged);
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned int) {
  if (pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr size_t kPitchAlignment = 512;
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  return cuMemAlloc_v2(out, *pitch * height);
}

// Waits for the device first, as the real one does: memory under a running kernel is not taken away.
CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address) {
  SOFTGPU_TRY(Enter());
  if (address == 0) return CUDA_SUCCESS;
  Block block;
  if (!FindBlock(address, 1, &block) || block.base != address || block.on_host()) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_TRY(GuardUnsafe());
  block.context->Synchronize();
  return softgpu::FreeDevice(address);
}

CUresult CUDAAPI cuMemHostAlloc(void** out, size_t size, unsigned int flags) {
  return softgpu::AllocateHost(out, size, flags);
}
CUresult CUDAAPI cuMemAllocHost_v2(void** out, size_t size) { return softgpu::AllocateHost(out, size, 0); }
CUresult CUDAAPI cuMemAllocHost(void** out, unsigned int size) { return softgpu::AllocateHost(out, size, 0); }

CUresult CUDAAPI cuMemFreeHost(void* address) {
  SOFTGPU_TRY(Enter());
  if (address == nullptr) return CUDA_SUCCESS;
  Block block;
  auto base = reinterpret_cast<uintptr_t>(address);
  if (!FindBlock(base, 1, &block) || block.base != base || block.kind != Block::Kind::kPinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SOFTGPU_TRY(GuardUnsafe());
  block.context->Synchronize();
  if (softgpu::TakeOut(
          base, [](const Block& b) { return b.kind == Block::Kind::kPinned; }, &block)) {
    softgpu::Release(block);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister_v2(void* address, size_t size, unsigned int flags) {
  SOFTGPU_TRY(Enter());
  Context* context = nullptr;
  SOFTGPU_TRY(NeedContext(&context));
  SOFTGPU_TRY(GuardUnsafe());
  if (!softgpu::GetSettings().host_register) return CUDA_ERROR_NOT_SUPPORTED;
  constexpr unsigned kKnownFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                   CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  auto base = reinterpret_cast<uintptr_t>(address);
  if (address == nullptr || size == 0 || (flags & ~kKnownFlags) != 0 || !softgpu::IsMapped(base, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto& blocks = softgpu::TheBlocks();
  std::unique_lock lock(blocks.mutex);
  if (softgpu::Overlaps(blocks, base, size)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  blocks.by_base[base] = {base, size, Block::Kind::kRegistered, context, flags, ++blocks.last_id};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemHostRegister(void* address, size_t size, unsigned int flags) {
  return cuMemHostRegister_v2(address, size, flags);
}

CUresult CUDAAPI cuMemHostUnregister(void* address) {
  SOFTGPU_TRY(Enter());
  SOFTGPU_TRY(GuardUnsafe());
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Block block;
  auto registered = [](const Block& b) { return b.kind == Block::Kind::kRegistered; };
  return softgpu::TakeOut(reinterpret_cast<uintptr_t>(address), registered, &block)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* address, unsigned int flags) {
  SOFTGPU_TRY(Enter());
  Block block;
  auto base = reinterpret_cast<uintptr_t>(address);
  if (out == nullptr || flags != 0 || !FindBlock(base, 1, &block) || !block.on_host()) return CUDA_ERROR_INVALID_VALUE;
  *out = base;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int* flags, void* address) {
  SOFTGPU_TRY(Enter());
  Block block;
  if (flags == nullptr || !FindBlock(reinterpret_cast<uintptr_t>(address), 1, &block) ||
      block.kind != Block::Kind::kPinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = block.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t* available, size_t* total) {
  SOFTGPU_TRY(Enter());
  Context* context = nullptr;
  SOFTGPU_TRY(NeedContext(&context));
  if (available != nullptr) *available = softgpu::MemoryLeft(context->device);
  if (total != nullptr) *total = softgpu::GetSettings().memory_bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  SOFTGPU_TRY(Enter());
  Block block;
  if (!FindBlock(address, 1, &block)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = block.base;
  if (size != nullptr) *size = block.size;
  return CUDA_SUCCESS;
}

}  // extern "C"
