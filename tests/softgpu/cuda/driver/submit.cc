#include "tests/softgpu/cuda/driver/submit.h"

#include <algorithm>
#include <utility>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/event.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/streams.h"

namespace softgpu {
namespace {

// The per-thread default streams of one thread.
struct ThreadStreams {
  std::vector<std::shared_ptr<Stream>> streams;
  ~ThreadStreams() {
    for (const auto& stream : streams) stream->Retire();
  }
};

std::shared_ptr<Stream> PerThreadStream(Context* context) {
  static thread_local ThreadStreams mine;
  for (const auto& stream : mine.streams) {
    if (stream->context == context && !stream->retired()) return stream;
  }
  mine.streams.push_back(std::make_shared<Stream>(context, 0, 0, Stream::Kind::kPerThread));
  context->AddStream(mine.streams.back());
  return mine.streams.back();
}

// With context->order held.
std::vector<Point> OrderAgainstLegacy(const std::shared_ptr<Stream>& stream) {
  std::vector<Point> after;
  auto add = [&](const std::shared_ptr<Stream>& other) {
    if (uint64_t last = other->submitted(); !other->Reached(last)) after.push_back({other, last});
  };
  if (stream->kind != Stream::Kind::kLegacy) {
    add(stream->context->legacy());
    return after;
  }
  for (const auto& other : stream->context->Streams()) {
    if (other->blocking()) add(other);
  }
  return after;
}

}  // namespace

CUresult FindStream(CUstream handle, std::shared_ptr<Stream>* stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    Context* context = nullptr;
    SOFTGPU_TRY(NeedContext(&context));
    *stream = handle == CU_STREAM_PER_THREAD ? PerThreadStream(context) : context->legacy();
    return CUDA_SUCCESS;
  }
  *stream = Streams().Find(handle);
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

uint64_t Enqueue(const std::shared_ptr<Stream>& stream, Action action, bool quick) {
  Work work{.run = std::move(action), .after = {}, .quick = quick};
  if (stream->kind != Stream::Kind::kLegacy && !stream->blocking()) {
    return stream->Push(std::move(work));
  }
  std::lock_guard lock(stream->context->order);
  work.after = OrderAgainstLegacy(stream);
  return stream->Push(std::move(work));
}

CUresult Submit(CUstream handle, CUgraphNodeType type, const Prepare& prepare, bool quick) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(FindStream(handle, &stream));
  bool captured = false;
  SOFTGPU_TRY(CaptureWork(stream, type, prepare, &captured));
  if (!captured) Enqueue(stream, prepare(), quick);
  return CUDA_SUCCESS;
}

void WaitForStream(const std::shared_ptr<Stream>& stream) {
  if (stream->kind == Stream::Kind::kLegacy) {
    for (const auto& other : stream->context->Streams()) {
      if (other->blocking()) other->Wait(other->submitted());
    }
  }
  stream->Wait(stream->submitted());
}

bool StreamIsIdle(const std::shared_ptr<Stream>& stream) {
  if (!stream->Idle()) return false;
  if (stream->kind != Stream::Kind::kLegacy) return true;
  std::vector<std::shared_ptr<Stream>> all = stream->context->Streams();
  return std::all_of(all.begin(), all.end(), [](const auto& other) { return !other->blocking() || other->Idle(); });
}

void DropStreamsAndEvents(Context* context) {
  for (const auto& stream : Streams().All()) {
    if (stream->context != context) continue;
    AbandonCaptureOf(stream);
    stream->Retire();
    Streams().Remove(stream.get());
  }
  for (const auto& event : Events().All()) {
    if (event->context == context) Events().Remove(event.get());
  }
}

}  // namespace softgpu
