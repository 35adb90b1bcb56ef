// Private entry points of softgpu's libcuda.so.1, beside the public driver API. C ABI; all are thread-safe.
#ifndef SOFTGPU_CUDA_SOFTGPU_H_
#define SOFTGPU_CUDA_SOFTGPU_H_

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

// Enqueues fn(arg) on the stream as a kernel: asynchronous, in stream order, allowed to block for as long as it likes
// (only this stream stands still), and allowed to call the driver. NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD mean
// what they mean to a kernel launch. While the stream is capturing it becomes a kernel node and runs once a launch of
// the graph. `destroy` (may be NULL) is called with arg when no further run is possible: after the only run, or when
// the graph and all its executables are gone; if the call fails it is called before the call returns. It
// runs on the stream's thread before the work counts as finished: it must not wait for the stream, so not free device
// memory.
//
// Errors: as cuLaunchKernel (CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_STREAM_CAPTURE_*, CUDA_ERROR_INVALID_VALUE for !fn).
CUresult softgpuEnqueue(CUstream stream, void (*fn)(void*), void* arg, void (*destroy)(void*));

// Enqueues a kernel that does nothing for `milliseconds`, or, with -1, until softgpuRelease(stream): a stuck kernel.
CUresult softgpuStall(CUstream stream, int milliseconds);

// Ends every unfinished softgpuStall on the stream, whatever its time. Stalls in captured graphs included.
CUresult softgpuRelease(CUstream stream);

// Number of operations given to the stream and not finished; for tests. `unfinished` must not be NULL.
CUresult softgpuStreamDepth(CUstream stream, unsigned long long* unfinished);

#ifdef __cplusplus
}
#endif

#endif  // SOFTGPU_CUDA_SOFTGPU_H_
