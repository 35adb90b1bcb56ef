#include "tests/softgpu/cuda/driver/event.h"
#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/submit.h"

namespace softgpu {

Registry<Event>& Events() {
  static Registry<Event>& events = *new Registry<Event>;
  return events;
}

std::shared_ptr<Mark> Event::mark() const {
  std::lock_guard lock(mutex_);
  return mark_;
}

std::shared_ptr<Mark> Event::Rearm() {
  auto fresh = std::make_shared<Mark>();
  std::lock_guard lock(mutex_);
  mark_ = fresh;
  return fresh;
}

namespace {

CUresult Find(CUevent handle, std::shared_ptr<Event>* event) {
  SOFTGPU_TRY(Enter());
  *event = Events().Find(handle);
  return *event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Record(CUevent handle, CUstream stream_handle, unsigned flags) {
  std::shared_ptr<Event> event;
  SOFTGPU_TRY(Find(handle, &event));
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(FindStream(stream_handle, &stream));
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->context != event->context) return CUDA_ERROR_INVALID_HANDLE;
  bool captured = false;
  SOFTGPU_TRY(CaptureEventRecord(stream, event, (flags & CU_EVENT_RECORD_EXTERNAL) != 0, &captured));
  if (captured) return CUDA_SUCCESS;
  Enqueue(
      stream, [mark = event->Rearm()] { mark->Complete(); }, true);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace softgpu

using softgpu::Event;
using softgpu::Mark;
using softgpu::Stream;

extern "C" {

CUresult CUDAAPI cuEventCreate(CUevent* out, unsigned int flags) {
  SOFTGPU_TRY(softgpu::Enter());
  softgpu::Context* context = nullptr;
  SOFTGPU_TRY(softgpu::NeedContext(&context));
  constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (out == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  *out = reinterpret_cast<CUevent>(softgpu::Events().Add(std::make_shared<Event>(context, flags)));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent handle) {
  SOFTGPU_TRY(softgpu::Enter());
  return softgpu::Events().Remove(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) { return softgpu::Record(event, stream, 0); }

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return softgpu::Record(event, stream, flags);
}

CUresult CUDAAPI cuEventQuery(CUevent handle) {
  std::shared_ptr<Event> event;
  SOFTGPU_TRY(softgpu::Find(handle, &event));
  SOFTGPU_TRY(softgpu::GuardEventWait(*event));
  std::shared_ptr<Mark> mark = event->mark();
  return mark == nullptr || mark->done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  std::shared_ptr<Event> event;
  SOFTGPU_TRY(softgpu::Find(handle, &event));
  SOFTGPU_TRY(softgpu::GuardEventWait(*event));
  if (std::shared_ptr<Mark> mark = event->mark()) mark->Wait();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime_v2(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  SOFTGPU_TRY(softgpu::Find(start_handle, &start));
  SOFTGPU_TRY(softgpu::Find(end_handle, &end));
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Mark> from = start->mark();
  std::shared_ptr<Mark> to = end->mark();
  bool timed = ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) == 0;
  if (!timed || start->context != end->context || from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SOFTGPU_TRY(softgpu::GuardEventWait(*start));
  SOFTGPU_TRY(softgpu::GuardEventWait(*end));
  if (!from->done() || !to->done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(to->nanoseconds() - from->nanoseconds()) / 1e6);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags) {
  std::shared_ptr<Event> event;
  SOFTGPU_TRY(softgpu::Find(handle, &event));
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(softgpu::FindStream(stream_handle, &stream));
  if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  bool captured = false;
  SOFTGPU_TRY(softgpu::CaptureEventWait(stream, event, (flags & CU_EVENT_WAIT_EXTERNAL) != 0, &captured));
  if (captured) return CUDA_SUCCESS;
  std::shared_ptr<Mark> mark = event->mark();
  if (mark != nullptr && !mark->done())
    softgpu::Enqueue(
        stream, [mark] { mark->Wait(); }, false);
  return CUDA_SUCCESS;
}

}  // extern "C"
