#include "tests/softgpu/cuda/driver/context.h"

#include <algorithm>
#include <cstring>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/device.h"
#include "tests/softgpu/cuda/driver/memory.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/submit.h"

namespace softgpu {
namespace {

// Contexts are never freed: a stale handle can then always be told from a good one, and nothing is torn down at exit.
struct Contexts {
  std::mutex mutex;
  std::vector<Context*> all;
  struct Primary {
    Context* context = nullptr;
    int users = 0;
    unsigned flags = 0;
  };
  std::vector<Primary> primary;
};

Contexts& TheContexts() {
  static Contexts& contexts = *new Contexts;
  return contexts;
}

constexpr int kDeepestStack = 64;
struct CurrentStack {
  Context* entries[kDeepestStack];
  int depth;
};
thread_local CurrentStack current;

uint64_t NextContextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// With TheContexts().mutex held.
Contexts::Primary& PrimaryOf(CUdevice device) {
  Contexts& contexts = TheContexts();
  if (contexts.primary.empty()) contexts.primary.resize(GetSettings().visible.size());
  return contexts.primary[static_cast<size_t>(device)];
}

}  // namespace

Context::Context(int owning_device, unsigned context_flags)
    : device(owning_device),
      id(NextContextId()),
      flags(context_flags),
      legacy_(std::make_shared<Stream>(this, 0, 0, Stream::Kind::kLegacy)) {}

std::vector<std::shared_ptr<Stream>> Context::Streams() {
  std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const auto& stream) { return stream->retired() && stream->Idle(); });
  std::vector<std::shared_ptr<Stream>> all = streams_;
  all.insert(all.begin(), legacy_);
  return all;
}

void Context::AddStream(const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

void Context::Synchronize() {
  for (const auto& stream : Streams()) stream->Wait(stream->submitted());
}

void Context::Reset() {
  Synchronize();
  DropStreamsAndEvents(this);
  FreeAllOf(this);
}

bool Context::SetPeer(Context* peer, bool enabled) {
  std::lock_guard lock(mutex_);
  return enabled ? peers_.insert(peer).second : peers_.erase(peer) != 0;
}

Context* CurrentContext() { return current.depth == 0 ? nullptr : current.entries[current.depth - 1]; }

CUresult NeedContext(Context** context) {
  *context = CurrentContext();
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return (*context)->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

std::vector<Context*> AllContexts() {
  std::lock_guard lock(TheContexts().mutex);
  std::vector<Context*> live;
  for (Context* context : TheContexts().all) {
    if (!context->destroyed) live.push_back(context);
  }
  return live;
}

Context* FindContext(CUcontext handle) {
  std::lock_guard lock(TheContexts().mutex);
  auto& all = TheContexts().all;
  auto found = std::find(all.begin(), all.end(), reinterpret_cast<Context*>(handle));
  return found == all.end() || (*found)->destroyed ? nullptr : *found;
}

namespace {

CUresult SetCurrent(CUcontext handle) {
  if (handle == nullptr) {
    if (current.depth > 0) --current.depth;
    return CUDA_SUCCESS;
  }
  Context* context = FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (current.depth == 0) current.depth = 1;
  current.entries[current.depth - 1] = context;
  return CUDA_SUCCESS;
}

CUresult Push(CUcontext handle) {
  Context* context = FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (current.depth == kDeepestStack) return CUDA_ERROR_OUT_OF_MEMORY;
  current.entries[current.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult Create(CUcontext* out, unsigned flags, CUdevice device) {
  SOFTGPU_TRY(Enter());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  auto* context = new Context(device, flags);
  {
    std::lock_guard lock(TheContexts().mutex);
    TheContexts().all.push_back(context);
  }
  *out = context->handle();
  return Push(*out);
}

}  // namespace
}  // namespace softgpu

using softgpu::Context;
using softgpu::Contexts;
using softgpu::Enter;
using softgpu::IsDevice;
using softgpu::TheContexts;

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  SOFTGPU_TRY(Enter());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(TheContexts().mutex);
  Contexts::Primary& primary = softgpu::PrimaryOf(device);
  if (primary.context == nullptr) {
    primary.context = new Context(device, primary.flags);
    TheContexts().all.push_back(primary.context);
  }
  ++primary.users;
  *out = primary.context->handle();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  SOFTGPU_TRY(Enter());
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* last = nullptr;
  {
    std::lock_guard lock(TheContexts().mutex);
    Contexts::Primary& primary = softgpu::PrimaryOf(device);
    if (primary.users == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.users == 0) last = primary.context;
  }
  if (last != nullptr) last->Reset();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device) {
  SOFTGPU_TRY(Enter());
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* context = nullptr;
  {
    std::lock_guard lock(TheContexts().mutex);
    context = softgpu::PrimaryOf(device).context;
  }
  if (context != nullptr) context->Reset();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  SOFTGPU_TRY(Enter());
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(TheContexts().mutex);
  Contexts::Primary& primary = softgpu::PrimaryOf(device);
  primary.flags = flags;
  if (primary.context != nullptr) primary.context->flags = flags;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  SOFTGPU_TRY(Enter());
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(TheContexts().mutex);
  Contexts::Primary& primary = softgpu::PrimaryOf(device);
  if (flags != nullptr) *flags = primary.flags;
  if (active != nullptr) *active = primary.users > 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  return softgpu::Create(out, flags, device);
}
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return softgpu::Create(out, flags, device);
}
CUresult CUDAAPI cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int, unsigned int flags, CUdevice device) {
  return softgpu::Create(out, flags, device);
}
#if CUDA_VERSION >= 12050
CUresult CUDAAPI cuCtxCreate_v4(CUcontext* out, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  return softgpu::Create(out, flags, device);
}
#endif

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext handle) {
  SOFTGPU_TRY(Enter());
  Context* context = softgpu::FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context->Reset();
  context->destroyed = true;
  if (softgpu::CurrentContext() == context) --softgpu::current.depth;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext handle) {
  SOFTGPU_TRY(Enter());
  return softgpu::Push(handle);
}
CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle) { return cuCtxPushCurrent_v2(handle); }

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext* out) {
  SOFTGPU_TRY(Enter());
  if (softgpu::current.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  Context* top = softgpu::current.entries[--softgpu::current.depth];
  if (out != nullptr) *out = top->handle();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* out) { return cuCtxPopCurrent_v2(out); }

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
  SOFTGPU_TRY(Enter());
  return softgpu::SetCurrent(handle);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* out) {
  SOFTGPU_TRY(Enter());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = softgpu::CurrentContext();
  *out = context == nullptr ? nullptr : context->handle();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  SOFTGPU_TRY(Enter());
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  SOFTGPU_TRY(softgpu::NeedContext(&context));
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (handle == nullptr) return cuCtxGetDevice(device);
  SOFTGPU_TRY(Enter());
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = softgpu::FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
  SOFTGPU_TRY(Enter());
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  SOFTGPU_TRY(softgpu::NeedContext(&context));
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long* id) {
  SOFTGPU_TRY(Enter());
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = handle == nullptr ? softgpu::CurrentContext() : softgpu::FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  SOFTGPU_TRY(Enter());
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = handle == nullptr ? softgpu::CurrentContext() : softgpu::FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;  // what the real driver answers for contexts made through cuCtxCreate_v2 and later
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext handle) {
  SOFTGPU_TRY(Enter());
  Context* context = handle == nullptr ? softgpu::CurrentContext() : softgpu::FindContext(handle);
  if (context == nullptr || context->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
  SOFTGPU_TRY(softgpu::GuardContextSynchronize(context));
  context->Synchronize();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxSynchronize(void) { return cuCtxSynchronize_v2(nullptr); }

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  SOFTGPU_TRY(Enter());
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

}  // extern "C"
