// Stream capture: which streams record into which graph, and the calls that spoil it.
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <vector>

#include "tests/softgpu/cuda/driver/graph.h"

namespace softgpu {

class Context;
class Event;
class Stream;

// All of it guarded by CaptureMutex().
class Capture {
 public:
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  int thread = 0;  // kernel id of the thread that began it
  const Stream* origin = nullptr;
  std::shared_ptr<Graph> graph;
  bool into_given_graph = false;
  bool invalid = false;
  bool ended = false;
  std::vector<std::shared_ptr<Stream>> streams;
};

std::mutex& CaptureMutex();

// One relaxed load: false nearly always, and then no guard needs more than that.
bool AnyCapture();

// Each guard answers CUDA_SUCCESS where the call may go on. Otherwise it has invalidated the captures concerned.

// A call that is unsafe while anything is captured, by the rules of cuThreadExchangeStreamCaptureMode.
CUresult GuardUnsafe();
// Work on, or a wait for, the legacy stream of the context.
CUresult GuardLegacy(Context* context);
// A wait for, or a query of, this stream.
CUresult GuardStreamWait(const std::shared_ptr<Stream>& stream);
CUresult GuardContextSynchronize(Context* context);
// cuStreamAddCallback, which cannot be captured.
CUresult GuardCallback(const std::shared_ptr<Stream>& stream);
// A wait for, or a query of, this event.
CUresult GuardEventWait(Event& event);

// Records the action as a node if the stream is capturing (*captured), else does nothing.
CUresult CaptureWork(const std::shared_ptr<Stream>& stream, CUgraphNodeType type, const Prepare& prepare,
                     bool* captured);

// cuEventRecord and cuStreamWaitEvent where a capture is concerned; *captured tells.
CUresult CaptureEventRecord(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                            bool* captured);
CUresult CaptureEventWait(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                          bool* captured);

// The stream is going away: what it captures can no longer be completed.
void AbandonCaptureOf(const std::shared_ptr<Stream>& stream);

CUresult BeginCapture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, std::shared_ptr<Graph> into,
                      std::vector<Node*> after);
CUresult EndCapture(const std::shared_ptr<Stream>& stream, CUgraph* graph);
CUstreamCaptureMode ExchangeThreadMode(CUstreamCaptureMode mode);

// True if a stream of the context that is ordered against the legacy stream is capturing. CaptureMutex() held.
bool BlocksLegacy(Context* context);

}  // namespace softgpu
