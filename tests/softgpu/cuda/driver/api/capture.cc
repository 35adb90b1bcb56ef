#include <algorithm>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/submit.h"

using softgpu::Capture;
using softgpu::Graph;
using softgpu::Node;
using softgpu::Stream;

namespace {

CUresult Find(CUstream handle, std::shared_ptr<Stream>* stream) {
  SOFTGPU_TRY(softgpu::Enter());
  return softgpu::FindStream(handle, stream);
}

bool IsMode(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult Info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** dependencies, size_t* dependency_count) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(Find(handle, &stream));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(softgpu::CaptureMutex());
  // Asking on the legacy stream is refused while it could not be used, but spoils nothing.
  if (stream->kind == Stream::Kind::kLegacy && softgpu::BlocksLegacy(stream->context)) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  const Capture* capture = stream->capture.get();
  if (capture == nullptr) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  *status = capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != nullptr) *id = capture->id;
  if (capture->invalid) return CUDA_SUCCESS;
  if (graph != nullptr) *graph = capture->graph->handle();
  // Valid until the next call on the stream, as documented for the real one.
  if (dependencies != nullptr) *dependencies = reinterpret_cast<const CUgraphNode*>(stream->tail.data());
  if (dependency_count != nullptr) *dependency_count = stream->tail.size();
  return CUDA_SUCCESS;
}

CUresult UpdateDependencies(CUstream handle, CUgraphNode* dependencies, size_t count, unsigned flags) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(Find(handle, &stream));
  bool set = flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES;
  if ((!set && flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES) || (count != 0 && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::lock_guard lock(softgpu::CaptureMutex());
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (set) stream->tail.clear();
  for (size_t i = 0; i < count; ++i) {
    auto* node = reinterpret_cast<Node*>(dependencies[i]);
    if (node == nullptr || node->graph != stream->capture->graph.get()) return CUDA_ERROR_INVALID_VALUE;
    if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end()) stream->tail.push_back(node);
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(Find(handle, &stream));
  if (!IsMode(mode)) return CUDA_ERROR_INVALID_VALUE;
  return softgpu::BeginCapture(stream, mode, nullptr, {});
}
CUresult CUDAAPI cuStreamBeginCapture(CUstream handle) {
  return cuStreamBeginCapture_v2(handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                                             const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(Find(handle, &stream));
  std::shared_ptr<Graph> graph = softgpu::Graphs().Find(graph_handle);
  if (graph == nullptr || !IsMode(mode) || (count != 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> after;
  for (size_t i = 0; i < count; ++i) after.push_back(reinterpret_cast<Node*>(dependencies[i]));
  return softgpu::BeginCapture(stream, mode, graph, std::move(after));
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(Find(handle, &stream));
  return softgpu::EndCapture(stream, graph);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return Info(handle, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return Info(handle, status, id, nullptr, nullptr, nullptr);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                           CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return Info(handle, status, id, graph, dependencies, count);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                           CUgraph* graph, const CUgraphNode** dependencies,
                                           const CUgraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;  // all edges are of the default kind
  return Info(handle, status, id, graph, dependencies, count);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count,
                                                   unsigned int flags) {
  return UpdateDependencies(stream, dependencies, count, flags);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* dependencies,
                                                      const CUgraphEdgeData*, size_t count, unsigned int flags) {
  return UpdateDependencies(stream, dependencies, count, flags);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SOFTGPU_TRY(softgpu::Enter());
  if (mode == nullptr || !IsMode(*mode)) return CUDA_ERROR_INVALID_VALUE;
  *mode = softgpu::ExchangeThreadMode(*mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
