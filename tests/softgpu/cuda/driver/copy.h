// Copies and fills of boxes of bytes, on a stream.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace softgpu {

// width bytes in each of height rows in each of depth slices.
struct Box {
  uintptr_t to;
  uintptr_t from;
  size_t width;
  size_t height = 1;
  size_t depth = 1;
  size_t to_pitch = 0;
  size_t from_pitch = 0;
  size_t to_slice = 0;  // bytes from slice to slice
  size_t from_slice = 0;
};

// What the caller says of one side of a copy.
enum class Side { kHost, kDevice, kEither };

// Ordered on the stream. Pageable sources are read, and pageable destinations written, before the call returns.
CUresult CopyAsync(const Box& box, Side to, Side from, CUstream stream);

// Complete when it returns, but for copies from device to device, which are only ordered. `stream` is the default
// stream, legacy or per-thread.
CUresult CopySync(const Box& box, Side to, Side from, CUstream stream);

// Fills height rows of `width` elements of element_size (1, 2 or 4) bytes.
struct Fill {
  CUdeviceptr to;
  size_t pitch;
  uint32_t value;
  size_t element_size;
  size_t width;
  size_t height = 1;
};
CUresult FillAsync(const Fill& fill, CUstream stream);
CUresult FillSync(const Fill& fill, CUstream stream);

}  // namespace softgpu
