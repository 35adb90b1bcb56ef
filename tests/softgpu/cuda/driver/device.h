#pragma once

#include <cuda.h>

#include <cstddef>

namespace softgpu {

bool IsDevice(CUdevice device);

// Takes bytes from the device's memory; false where there is not enough left. Thread-safe.
bool TakeMemory(CUdevice device, size_t bytes);
void GiveMemoryBack(CUdevice device, size_t bytes);
size_t MemoryLeft(CUdevice device);

}  // namespace softgpu
