#include "tests/softgpu/cuda/driver/capture.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <unordered_set>
#include <utility>

#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/event.h"
#include "tests/softgpu/cuda/driver/process.h"

namespace softgpu {
namespace {

struct Captures {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> active;
  std::atomic<size_t> count{0};
  uint64_t last_id = 0;
};

Captures& TheCaptures() {
  static Captures& captures = *new Captures;
  return captures;
}

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

int ThreadId() {
  static thread_local int id = static_cast<int>(syscall(SYS_gettid));
  return id;
}

// The functions below need the mutex held.

void Join(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Capture>& capture, std::vector<Node*> tail) {
  stream->capture = capture;
  stream->tail = std::move(tail);
  capture->streams.push_back(stream);
}

void End(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const auto& stream : capture->streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  capture->streams.clear();
  Captures& all = TheCaptures();
  std::erase(all.active, capture);
  all.count.store(all.active.size(), std::memory_order_relaxed);
}

template <typename Concerned>
CUresult Invalidate(Concerned concerned, CUresult error) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : TheCaptures().active) {
    if (!concerned(*capture)) continue;
    capture->invalid = true;
    result = error;
  }
  return result;
}

bool HasBlockingStreamOf(const Capture& capture, const Context* context) {
  return std::any_of(capture.streams.begin(), capture.streams.end(),
                     [&](const auto& stream) { return stream->context == context && stream->blocking(); });
}

CUresult UseLegacy(Context* context) {
  return Invalidate([&](const Capture& capture) { return HasBlockingStreamOf(capture, context); },
                    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void Merge(std::vector<Node*>& into, const std::vector<Node*>& nodes) {
  for (Node* node : nodes) {
    if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
  }
}

bool AllJoined(const Capture& capture, const Stream& origin) {
  std::unordered_set<const Node*> reached;
  std::vector<const Node*> open(origin.tail.begin(), origin.tail.end());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const auto& stream) {
    return std::all_of(stream->tail.begin(), stream->tail.end(),
                       [&](const Node* node) { return reached.count(node) != 0; });
  });
}

}  // namespace

std::mutex& CaptureMutex() { return TheCaptures().mutex; }
bool AnyCapture() { return TheCaptures().count.load(std::memory_order_relaxed) != 0; }

CUresult GuardUnsafe() {
  if (!AnyCapture() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(CaptureMutex());
  auto concerned = [](const Capture& capture) {
    bool own = capture.thread == ThreadId() && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool global = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    return own || global;
  };
  return Invalidate(concerned, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

bool BlocksLegacy(Context* context) {
  const auto& active = TheCaptures().active;
  return std::any_of(active.begin(), active.end(),
                     [&](const auto& capture) { return HasBlockingStreamOf(*capture, context); });
}

CUresult GuardLegacy(Context* context) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  std::lock_guard lock(CaptureMutex());
  return UseLegacy(context);
}

CUresult GuardCallback(const std::shared_ptr<Stream>& stream) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  std::lock_guard lock(CaptureMutex());
  if (stream->kind == Stream::Kind::kLegacy) return UseLegacy(stream->context);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  bool invalid_before = std::exchange(stream->capture->invalid, true);
  return invalid_before ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult GuardStreamWait(const std::shared_ptr<Stream>& stream) {
  SOFTGPU_TRY(GuardCallback(stream));
  return GuardUnsafe();
}

CUresult GuardContextSynchronize(Context* context) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  {
    std::lock_guard lock(CaptureMutex());
    auto concerned = [&](const Capture& capture) {
      return std::any_of(capture.streams.begin(), capture.streams.end(),
                         [&](const auto& stream) { return stream->context == context; });
    };
    SOFTGPU_TRY(Invalidate(concerned, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  }
  return GuardUnsafe();
}

CUresult GuardEventWait(Event& event) {
  {
    std::lock_guard lock(CaptureMutex());
    if (event.capture != nullptr) {
      event.capture->invalid = true;
      return CUDA_ERROR_CAPTURED_EVENT;
    }
  }
  return GuardUnsafe();
}

CUresult CaptureWork(const std::shared_ptr<Stream>& stream, CUgraphNodeType type, const Prepare& prepare,
                     bool* captured) {
  *captured = false;
  if (!AnyCapture()) return CUDA_SUCCESS;
  std::lock_guard lock(CaptureMutex());
  if (stream->kind == Stream::Kind::kLegacy) return UseLegacy(stream->context);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *captured = true;
  stream->tail = {stream->capture->graph->Add(type, prepare, stream->tail)};
  return CUDA_SUCCESS;
}

CUresult CaptureEventRecord(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                            bool* captured) {
  *captured = false;
  std::lock_guard lock(CaptureMutex());
  if (stream->kind == Stream::Kind::kLegacy) SOFTGPU_TRY(UseLegacy(stream->context));
  if (stream->capture == nullptr) {
    if (!external) event->capture = nullptr;
    return CUDA_SUCCESS;
  }
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *captured = true;
  if (external) {
    Prepare prepare = [event]() -> Action { return [mark = event->Rearm()] { mark->Complete(); }; };
    stream->tail = {stream->capture->graph->Add(CU_GRAPH_NODE_TYPE_EVENT_RECORD, prepare, stream->tail)};
    return CUDA_SUCCESS;
  }
  event->capture = stream->capture;
  event->nodes = stream->tail;
  return CUDA_SUCCESS;
}

CUresult CaptureEventWait(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                          bool* captured) {
  *captured = false;
  std::lock_guard lock(CaptureMutex());
  if (stream->kind == Stream::Kind::kLegacy) SOFTGPU_TRY(UseLegacy(stream->context));
  const std::shared_ptr<Capture>& into = stream->capture;
  const std::shared_ptr<Capture>& from = event->capture;
  if (into == nullptr && from == nullptr) return CUDA_SUCCESS;
  *captured = true;
  if (into != nullptr && into->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external && into != nullptr) {
    Prepare prepare = [event]() -> Action {
      return [mark = event->mark()] {
        if (mark != nullptr) mark->Wait();
      };
    };
    stream->tail = {into->graph->Add(CU_GRAPH_NODE_TYPE_WAIT_EVENT, prepare, stream->tail)};
    return CUDA_SUCCESS;
  }
  if (from == nullptr || from->ended) {
    if (into == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    if (from == nullptr && event->mark() == nullptr) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    into->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (from->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (into == nullptr) {
    if (stream->kind == Stream::Kind::kLegacy) {
      from->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    Join(stream, from, event->nodes);
    return CUDA_SUCCESS;
  }
  if (into != from) {
    into->invalid = from->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  Merge(stream->tail, event->nodes);
  return CUDA_SUCCESS;
}

void AbandonCaptureOf(const std::shared_ptr<Stream>& stream) {
  if (!AnyCapture()) return;
  std::lock_guard lock(CaptureMutex());
  std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return;
  // A joined fork may go: its nodes live in the graph. Whether it had joined is judged when the capture ends.
  if (capture->origin != stream.get()) return;
  capture->invalid = true;
  if (!capture->into_given_graph) Graphs().Remove(capture->graph.get());
  End(capture);
}

CUresult BeginCapture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, std::shared_ptr<Graph> into,
                      std::vector<Node*> after) {
  if (stream->kind == Stream::Kind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Captures& all = TheCaptures();
  std::lock_guard lock(all.mutex);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  auto capture = std::make_shared<Capture>();
  capture->id = ++all.last_id;
  capture->mode = mode;
  capture->thread = ThreadId();
  capture->origin = stream.get();
  capture->into_given_graph = into != nullptr;
  capture->graph = into != nullptr ? std::move(into) : std::make_shared<Graph>();
  if (!capture->into_given_graph) Graphs().Add(capture->graph);
  Join(stream, capture, std::move(after));
  all.active.push_back(capture);
  all.count.store(all.active.size(), std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult EndCapture(const std::shared_ptr<Stream>& stream, CUgraph* graph) {
  if (graph != nullptr) *graph = nullptr;
  std::lock_guard lock(CaptureMutex());
  std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->thread != ThreadId() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  CUresult result = CUDA_SUCCESS;
  if (capture->invalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!AllJoined(*capture, *stream)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (result == CUDA_SUCCESS) {
    if (graph != nullptr) *graph = capture->graph->handle();
  } else if (!capture->into_given_graph) {
    Graphs().Remove(capture->graph.get());
  }
  End(capture);
  return result;
}

CUstreamCaptureMode ExchangeThreadMode(CUstreamCaptureMode mode) { return std::exchange(thread_mode, mode); }

}  // namespace softgpu
