#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/event.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/streams.h"
#include "tests/softgpu/cuda/driver/submit.h"

namespace softgpu {

Registry<Stream>& Streams() {
  static Registry<Stream>& streams = *new Registry<Stream>;
  return streams;
}

namespace {

constexpr int kGreatestPriority = -5;

CUresult Create(CUstream* out, unsigned flags, int priority) {
  SOFTGPU_TRY(Enter());
  Context* context = nullptr;
  SOFTGPU_TRY(NeedContext(&context));
  if (out == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (priority > 0) priority = 0;
  if (priority < kGreatestPriority) priority = kGreatestPriority;
  auto stream = std::make_shared<Stream>(context, flags, priority, Stream::Kind::kUser);
  context->AddStream(stream);
  *out = reinterpret_cast<CUstream>(Streams().Add(stream));
  return CUDA_SUCCESS;
}

CUresult EnterWith(CUstream handle, std::shared_ptr<Stream>* stream) {
  SOFTGPU_TRY(Enter());
  return FindStream(handle, stream);
}

}  // namespace
}  // namespace softgpu

using softgpu::EnterWith;
using softgpu::Stream;

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* out, unsigned int flags) { return softgpu::Create(out, flags, 0); }

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  return softgpu::Create(out, flags, priority);
}

// Work that the stream still has is finished; the call does not wait for it.
CUresult CUDAAPI cuStreamDestroy_v2(CUstream handle) {
  SOFTGPU_TRY(softgpu::Enter());
  std::shared_ptr<Stream> stream = softgpu::Streams().Remove(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  softgpu::AbandonCaptureOf(stream);
  stream->Retire();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(EnterWith(handle, &stream));
  SOFTGPU_TRY(softgpu::GuardStreamWait(stream));
  softgpu::WaitForStream(stream);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(EnterWith(handle, &stream));
  SOFTGPU_TRY(softgpu::GuardStreamWait(stream));
  return softgpu::StreamIsIdle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int* priority) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(EnterWith(handle, &stream));
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(EnterWith(handle, &stream));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(EnterWith(handle, &stream));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* context) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(EnterWith(handle, &stream));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = stream->context->handle();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice* device) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_TRY(EnterWith(handle, &stream));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device;
  return CUDA_SUCCESS;
}

}  // extern "C"
