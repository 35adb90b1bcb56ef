#include "tests/softgpu/cuda/driver/copy.h"

#include <cstring>
#include <memory>
#include <vector>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/memory.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/submit.h"

namespace softgpu {
namespace {

// Up to this size the calling thread does the copy itself where the stream is idle.
constexpr size_t kQuickBytes = size_t{256} << 10;

enum class Place { kDevice, kPinned, kPageable };

size_t Extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
  return (depth - 1) * slice + (height - 1) * pitch + width;
}

CUresult PlaceOf(uintptr_t address, size_t extent, Side said, Place* place) {
  Block block;
  if (FindBlock(address, 1, &block)) {
    if (!FindBlock(address, extent, &block)) return CUDA_ERROR_INVALID_VALUE;
    *place = block.on_host() ? Place::kPinned : Place::kDevice;
    return CUDA_SUCCESS;
  }
  *place = Place::kPageable;
  return said == Side::kDevice || address == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void Copy(const Box& box) {
  for (size_t z = 0; z < box.depth; ++z) {
    for (size_t y = 0; y < box.height; ++y) {
      memmove(reinterpret_cast<void*>(box.to + z * box.to_slice + y * box.to_pitch),
              reinterpret_cast<const void*>(box.from + z * box.from_slice + y * box.from_pitch), box.width);
    }
  }
}

bool Empty(const Box& box) { return box.width == 0 || box.height == 0 || box.depth == 0; }

CUresult Places(const Box& box, Side to, Side from, Place* to_place, Place* from_place) {
  size_t to_extent = Extent(box.width, box.height, box.depth, box.to_pitch, box.to_slice);
  size_t from_extent = Extent(box.width, box.height, box.depth, box.from_pitch, box.from_slice);
  SOFTGPU_TRY(PlaceOf(box.to, to_extent, to, to_place));
  return PlaceOf(box.from, from_extent, from, from_place);
}

// A copy of the source as it is now, and the box that brings it to its destination.
Action FromSnapshot(const Box& box) {
  auto bytes = std::make_shared<std::vector<char>>(box.width * box.height * box.depth);
  Box in = box;
  in.to = reinterpret_cast<uintptr_t>(bytes->data());
  in.to_pitch = box.width;
  in.to_slice = box.width * box.height;
  Copy(in);
  Box out = box;
  out.from = in.to;
  out.from_pitch = in.to_pitch;
  out.from_slice = in.to_slice;
  return [out, bytes] { Copy(out); };
}

void FillNow(const Fill& fill) {
  for (size_t y = 0; y < fill.height; ++y) {
    auto* row = reinterpret_cast<char*>(fill.to + y * fill.pitch);
    if (fill.element_size == 1) {
      memset(row, static_cast<int>(fill.value), fill.width);
      continue;
    }
    for (size_t x = 0; x < fill.width; ++x) memcpy(row + x * fill.element_size, &fill.value, fill.element_size);
  }
}

// The checks of a call on a default stream that is not asynchronous.
CUresult GuardSync(CUstream handle, std::shared_ptr<Stream>* stream) {
  SOFTGPU_TRY(FindStream(handle, stream));
  SOFTGPU_TRY(GuardCallback(*stream));
  return GuardUnsafe();
}

CUresult CheckFill(const Fill& fill) {
  Block block;
  size_t extent = Extent(fill.width * fill.element_size, fill.height, 1, fill.pitch, 0);
  return fill.to % fill.element_size == 0 && FindBlock(fill.to, extent, &block) ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult CopyAsync(const Box& box, Side to, Side from, CUstream handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(FindStream(handle, &stream));
  if (Empty(box)) return CUDA_SUCCESS;
  Place to_place;
  Place from_place;
  SOFTGPU_TRY(Places(box, to, from, &to_place, &from_place));
  bool captured = false;
  Action copy = [box] { Copy(box); };
  SOFTGPU_TRY(CaptureWork(stream, CU_GRAPH_NODE_TYPE_MEMCPY, Always(copy), &captured));
  if (captured) return CUDA_SUCCESS;
  bool quick = box.width * box.height * box.depth <= kQuickBytes;
  if (from_place == Place::kPageable && to_place == Place::kDevice) copy = FromSnapshot(box);
  uint64_t sequence = Enqueue(stream, std::move(copy), quick);
  bool both_on_host = to_place != Place::kDevice && from_place != Place::kDevice;
  if (to_place == Place::kPageable || both_on_host) stream->Wait(sequence);
  return CUDA_SUCCESS;
}

CUresult CopySync(const Box& box, Side to, Side from, CUstream handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(GuardSync(handle, &stream));
  if (Empty(box)) return CUDA_SUCCESS;
  Place to_place;
  Place from_place;
  SOFTGPU_TRY(Places(box, to, from, &to_place, &from_place));
  bool quick = box.width * box.height * box.depth <= kQuickBytes;
  uint64_t sequence = Enqueue(
      stream, [box] { Copy(box); }, quick);
  if (to_place != Place::kDevice || from_place != Place::kDevice) stream->Wait(sequence);
  return CUDA_SUCCESS;
}

CUresult FillAsync(const Fill& fill, CUstream handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(FindStream(handle, &stream));
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  SOFTGPU_TRY(CheckFill(fill));
  bool quick = fill.width * fill.height * fill.element_size <= kQuickBytes;
  return Submit(handle, CU_GRAPH_NODE_TYPE_MEMSET, Always([fill] { FillNow(fill); }), quick);
}

CUresult FillSync(const Fill& fill, CUstream handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(GuardSync(handle, &stream));
  return FillAsync(fill, handle);
}

}  // namespace softgpu
