// From handles to streams, and work into them.
#pragma once

#include <cuda.h>

#include <memory>

#include "tests/softgpu/cuda/driver/graph.h"
#include "tests/softgpu/cuda/driver/stream.h"

namespace softgpu {

class Context;

// NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or a live handle; else CUDA_ERROR_INVALID_HANDLE.
CUresult FindStream(CUstream handle, std::shared_ptr<Stream>* stream);

// The handle that a `_ptsz` function takes its stream argument for.
inline CUstream PerThread(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

// Adds the action to the stream, or, while it captures, a node of this type to the graph.
CUresult Submit(CUstream handle, CUgraphNodeType type, const Prepare& prepare, bool quick);

// Into the stream's queue in any case, ordered against the legacy stream. Returns the work's sequence.
uint64_t Enqueue(const std::shared_ptr<Stream>& stream, Action action, bool quick);

// Waits for the work given so far; the legacy stream includes those ordered against it.
void WaitForStream(const std::shared_ptr<Stream>& stream);
bool StreamIsIdle(const std::shared_ptr<Stream>& stream);

void DropStreamsAndEvents(Context* context);

}  // namespace softgpu
