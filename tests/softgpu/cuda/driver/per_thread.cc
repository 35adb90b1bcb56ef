// The `_ptsz` names: the same calls with NULL meaning the per-thread default stream.
#include <cuda.h>

#include "tests/softgpu/cuda/driver/submit.h"
#include "tests/softgpu/cuda/newer.h"

using softgpu::PerThread;

extern "C" {

CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream s, int* priority) {
  return cuStreamGetPriority(PerThread(s), priority);
}
CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream s, unsigned int* flags) {
  return cuStreamGetFlags(PerThread(s), flags);
}
CUresult CUDAAPI cuStreamGetId_ptsz(CUstream s, unsigned long long* id) { return cuStreamGetId(PerThread(s), id); }
CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream s, CUcontext* context) { return cuStreamGetCtx(PerThread(s), context); }
CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream s, CUdevice* device) {
  return cuStreamGetDevice(PerThread(s), device);
}
CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream s) { return cuStreamSynchronize(PerThread(s)); }
CUresult CUDAAPI cuStreamQuery_ptsz(CUstream s) { return cuStreamQuery(PerThread(s)); }
CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream s, CUevent event, unsigned int flags) {
  return cuStreamWaitEvent(PerThread(s), event, flags);
}
CUresult CUDAAPI cuEventRecord_ptsz(CUevent event, CUstream s) { return cuEventRecord(event, PerThread(s)); }
CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent event, CUstream s, unsigned int flags) {
  return cuEventRecordWithFlags(event, PerThread(s), flags);
}
CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream s, CUhostFn function, void* data) {
  return cuLaunchHostFunc(PerThread(s), function, data);
}
CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream s, CUstreamCallback callback, void* data, unsigned int flags) {
  return cuStreamAddCallback(PerThread(s), callback, data, flags);
}
CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec executable, CUstream s) {
  return cuGraphLaunch(executable, PerThread(s));
}
CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec executable, CUstream s) {
  return cuGraphUpload(executable, PerThread(s));
}
CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec* executable, CUgraph graph,
                                                   CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return cuGraphInstantiateWithParams(executable, graph, parameters);
}

#define SOFTGPU_MEMORY_OPERATION(NAME, VALUE)                                                         \
  CUresult CUDAAPI NAME##_ptsz(CUstream s, CUdeviceptr address, VALUE value, unsigned int flags) {    \
    return NAME(PerThread(s), address, value, flags);                                                 \
  }                                                                                                   \
  CUresult CUDAAPI NAME##_v2_ptsz(CUstream s, CUdeviceptr address, VALUE value, unsigned int flags) { \
    return NAME##_v2(PerThread(s), address, value, flags);                                            \
  }
SOFTGPU_MEMORY_OPERATION(cuStreamWriteValue32, cuuint32_t)
SOFTGPU_MEMORY_OPERATION(cuStreamWriteValue64, cuuint64_t)
SOFTGPU_MEMORY_OPERATION(cuStreamWaitValue32, cuuint32_t)
SOFTGPU_MEMORY_OPERATION(cuStreamWaitValue64, cuuint64_t)
CUresult CUDAAPI cuStreamBatchMemOp_ptsz(CUstream s, unsigned int count, CUstreamBatchMemOpParams* operations,
                                         unsigned int flags) {
  return cuStreamBatchMemOp(PerThread(s), count, operations, flags);
}
CUresult CUDAAPI cuStreamBatchMemOp_v2_ptsz(CUstream s, unsigned int count, CUstreamBatchMemOpParams* operations,
                                            unsigned int flags) {
  return cuStreamBatchMemOp_v2(PerThread(s), count, operations, flags);
}

CUresult CUDAAPI cuStreamBeginCapture_v2_ptsz(CUstream s, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture_v2(PerThread(s), mode);
}
CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream s, CUgraph* graph) { return cuStreamEndCapture(PerThread(s), graph); }
CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream s, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(PerThread(s), status);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_ptsz(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo(PerThread(s), status, id);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2_ptsz(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return cuStreamGetCaptureInfo_v2(PerThread(s), status, id, graph, dependencies, count);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3_ptsz(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                CUgraph* graph, const CUgraphNode** dependencies,
                                                const CUgraphEdgeData** edges, size_t* count) {
  return cuStreamGetCaptureInfo_v3(PerThread(s), status, id, graph, dependencies, edges, count);
}

}  // extern "C"
