// Functions newer than the oldest toolkit whose headers this builds with (12.4).
#pragma once

#include <cuda.h>

#if CUDA_VERSION < 12080
extern "C" CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice* device);
#endif
