// Capture and graphs.
#include "tests/softgpu/cuda/runtime/call.h"

using softgpu::runtime::Call;
using softgpu::runtime::Note;
using softgpu::runtime::PerThread;

namespace {

CUstreamCaptureStatus* Status(cudaStreamCaptureStatus* status) {
  return reinterpret_cast<CUstreamCaptureStatus*>(status);
}

cudaError_t Info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                 const cudaGraphNode_t** dependencies, size_t* count) {
  cuuint64_t number = 0;
  cudaError_t error =
      Call([&] { return cuStreamGetCaptureInfo_v2(stream, Status(status), &number, graph, dependencies, count); });
  if (error == cudaSuccess && id != nullptr) *id = number;
  return error;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Call([&] { return cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(mode)); });
}
cudaError_t CUDARTAPI cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(PerThread(stream), mode);
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Call([&] { return cuStreamEndCapture(stream, graph); });
}
cudaError_t CUDARTAPI cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return cudaStreamEndCapture(PerThread(stream), graph);
}
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return Call([&] { return cuStreamIsCapturing(stream, Status(status)); });
}
cudaError_t CUDARTAPI cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(PerThread(stream), status);
}
cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Call([&] { return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

// The plain name has had three forms; up to CUDA 12 the later two had names of their own.
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** dependencies, size_t* count) {
  return Info(stream, status, id, graph, dependencies, count);
}
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                               size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return Info(stream, status, id, graph, dependencies, count);
}
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                    unsigned long long* id, cudaGraph_t* graph,
                                                    const cudaGraphNode_t** dependencies,
                                                    const cudaGraphEdgeData** edges, size_t* count) {
  return cudaStreamGetCaptureInfo(PerThread(stream), status, id, graph, dependencies, edges, count);
}
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                                  size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                          const cudaGraphEdgeData*, size_t count, unsigned int flags) {
  return Call([&] { return cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags); });
}
cudaError_t CUDARTAPI cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        cudaGraphEdgeData*, size_t* count) {
  return Call([&] { return cuGraphGetEdges(graph, from, to, count); });
}
cudaError_t CUDARTAPI cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  return Call([&] { return cuGraphAddDependencies(graph, from, to, count); });
}
cudaError_t CUDARTAPI cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                   cudaGraphEdgeData*, size_t* count) {
  return Call([&] { return cuGraphNodeGetDependencies(node, dependencies, count); });
}
#else
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id) {
  return Info(stream, status, id, nullptr, nullptr, nullptr);
}
#endif

cudaError_t CUDARTAPI cudaGraphCreate(cudaGraph_t* out, unsigned int flags) {
  return Call([&] { return cuGraphCreate(out, flags); });
}
cudaError_t CUDARTAPI cudaGraphClone(cudaGraph_t* out, cudaGraph_t graph) {
  return Call([&] { return cuGraphClone(out, graph); });
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  return Call([&] { return cuGraphDestroy(graph); });
}
cudaError_t CUDARTAPI cudaGraphAddEmptyNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                            const cudaGraphNode_t* dependencies, size_t count) {
  return Call([&] { return cuGraphAddEmptyNode(out, graph, dependencies, count); });
}
cudaError_t CUDARTAPI cudaGraphAddHostNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                           size_t count, const cudaHostNodeParams* parameters) {
  if (parameters == nullptr) return Note(cudaErrorInvalidValue);
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = parameters->fn;
  host.userData = parameters->userData;
  return Call([&] { return cuGraphAddHostNode(out, graph, dependencies, count, &host); });
}
cudaError_t CUDARTAPI cudaGraphAddEventRecordNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies, size_t count,
                                                  cudaEvent_t event) {
  return Call([&] { return cuGraphAddEventRecordNode(out, graph, dependencies, count, event); });
}
cudaError_t CUDARTAPI cudaGraphAddEventWaitNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, size_t count, cudaEvent_t event) {
  return Call([&] { return cuGraphAddEventWaitNode(out, graph, dependencies, count, event); });
}
cudaError_t CUDARTAPI cudaGraphAddChildGraphNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies, size_t count, cudaGraph_t child) {
  return Call([&] { return cuGraphAddChildGraphNode(out, graph, dependencies, count, child); });
}
cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Call([&] { return cuGraphGetNodes(graph, nodes, count); });
}
cudaError_t CUDARTAPI cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Call([&] { return cuGraphGetRootNodes(graph, nodes, count); });
}
cudaError_t CUDARTAPI cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return Call([&] { return cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)); });
}

#if CUDART_VERSION >= 12000
cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return Call([&] { return cuGraphInstantiateWithFlags(out, graph, flags); });
}
#endif
cudaError_t CUDARTAPI cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return Call([&] { return cuGraphInstantiateWithFlags(out, graph, flags); });
}
cudaError_t CUDARTAPI cudaGraphInstantiateWithParams(cudaGraphExec_t* out, cudaGraph_t graph,
                                                     cudaGraphInstantiateParams* parameters) {
  if (parameters == nullptr) return Note(cudaErrorInvalidValue);
  cudaError_t error = cudaGraphInstantiate(out, graph, parameters->flags);
  parameters->errNode_out = nullptr;
  parameters->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
  return error;
}
cudaError_t CUDARTAPI cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                          cudaGraphExecUpdateResultInfo* info) {
  return Call([&]() -> CUresult {
    if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExecUpdateResultInfo found{};
    CUresult result = cuGraphExecUpdate_v2(executable, graph, &found);
    *info = {};
    info->result = static_cast<cudaGraphExecUpdateResult>(found.result);
    return result;
  });
}
cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return Call([&] { return cuGraphUpload(executable, stream); });
}
cudaError_t CUDARTAPI cudaGraphUpload_ptsz(cudaGraphExec_t executable, cudaStream_t stream) {
  return cudaGraphUpload(executable, PerThread(stream));
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return Call([&] { return cuGraphLaunch(executable, stream); });
}
cudaError_t CUDARTAPI cudaGraphLaunch_ptsz(cudaGraphExec_t executable, cudaStream_t stream) {
  return cudaGraphLaunch(executable, PerThread(stream));
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return Call([&] { return cuGraphExecDestroy(executable); });
}

cudaError_t CUDARTAPI cudaUserObjectCreate(cudaUserObject_t* out, void* pointer, cudaHostFn_t destroy,
                                           unsigned int references, unsigned int flags) {
  return Call([&] { return cuUserObjectCreate(out, pointer, destroy, references, flags); });
}
cudaError_t CUDARTAPI cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return Call([&] { return cuUserObjectRetain(object, count); });
}
cudaError_t CUDARTAPI cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return Call([&] { return cuUserObjectRelease(object, count); });
}
cudaError_t CUDARTAPI cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                                unsigned int flags) {
  return Call([&] { return cuGraphRetainUserObject(graph, object, count, flags); });
}
cudaError_t CUDARTAPI cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
  return Call([&] { return cuGraphReleaseUserObject(graph, object, count); });
}

}  // extern "C"
