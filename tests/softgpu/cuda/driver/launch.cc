// What runs on a stream without being a copy: host functions, callbacks, softgpu's kernels, memory operations.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/context.h"
#include "tests/softgpu/cuda/driver/memory.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/submit.h"
#include "tests/softgpu/cuda/softgpu.h"

namespace softgpu {
namespace {

// A waiting stream looks again after 1, 2, 4 ... microseconds, at most this many.
constexpr std::chrono::microseconds kLongestPause{50};

uint32_t barrier = 0;

template <typename T>
bool Satisfied(const T* address, T value, unsigned flags) {
  T now = __atomic_load_n(address, __ATOMIC_ACQUIRE);
  switch (flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH}) {
    case CU_STREAM_WAIT_VALUE_GEQ:  // cyclic
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default: return static_cast<T>(~(now | value)) != 0;
  }
}

template <typename T>
Action WaitFor(CUdeviceptr address, T value, unsigned flags) {
  return [=] {
    auto* at = reinterpret_cast<const T*>(address);
    std::chrono::microseconds pause{1};
    while (!Satisfied(at, value, flags)) {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongestPause);
    }
  };
}

// Release: what earlier work of the stream wrote is seen by whoever acquires the value.
template <typename T>
Action WriteTo(CUdeviceptr address, T value) {
  return [=] { __atomic_store_n(reinterpret_cast<T*>(address), value, __ATOMIC_RELEASE); };
}

CUresult Translate(const CUstreamBatchMemOpParams& operation, Action* action, bool* quick) {
  Block block;
  auto addressable = [&](CUdeviceptr address, size_t size) {
    return address % size == 0 && FindBlock(address, size, &block);
  };
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      if (!addressable(operation.writeValue.address, 4)) return CUDA_ERROR_INVALID_VALUE;
      *action = WriteTo<uint32_t>(operation.writeValue.address, operation.writeValue.value);
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      if (!addressable(operation.writeValue.address, 8)) return CUDA_ERROR_INVALID_VALUE;
      *action = WriteTo<uint64_t>(operation.writeValue.address, operation.writeValue.value64);
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      if (!addressable(operation.waitValue.address, 4)) return CUDA_ERROR_INVALID_VALUE;
      *quick = false;
      *action = WaitFor<uint32_t>(operation.waitValue.address, operation.waitValue.value, operation.waitValue.flags);
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      if (!addressable(operation.waitValue.address, 8)) return CUDA_ERROR_INVALID_VALUE;
      *quick = false;
      *action = WaitFor<uint64_t>(operation.waitValue.address, operation.waitValue.value64, operation.waitValue.flags);
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      // An operation of the total order rather than a fence, which the thread sanitizer does not know.
      *action = [] { __atomic_fetch_add(&barrier, 1, __ATOMIC_SEQ_CST); };
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemoryOperations(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* operations) {
  SOFTGPU_TRY(Enter());
  if (!GetSettings().memory_operations) return CUDA_ERROR_NOT_SUPPORTED;
  constexpr unsigned kMostInABatch = 256;
  if (count == 0 || count > kMostInABatch || operations == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool quick = true;
  if (count == 1) {
    Action only;
    SOFTGPU_TRY(Translate(operations[0], &only, &quick));
    return Submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, Always(std::move(only)), quick);
  }
  std::vector<Action> actions(count);
  for (unsigned i = 0; i < count; ++i) SOFTGPU_TRY(Translate(operations[i], &actions[i], &quick));
  auto all = [actions = std::move(actions)] {
    for (const Action& action : actions) action();
  };
  return Submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, Always(std::move(all)), quick);
}

CUresult OneOperation(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                      unsigned flags) {
  CUstreamBatchMemOpParams operation{};
  operation.operation = type;
  // writeValue and waitValue have the same shape, and value lies at the beginning of value64.
  operation.waitValue.address = address;
  if (type == CU_STREAM_MEM_OP_WAIT_VALUE_32 || type == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
    operation.waitValue.value = static_cast<uint32_t>(value);
  } else {
    operation.waitValue.value64 = value;
  }
  operation.waitValue.flags = flags;
  return MemoryOperations(stream, 1, &operation);
}

// Calls destroy(arg) with its last copy.
std::shared_ptr<void> Owned(void* argument, void (*destroy)(void*)) {
  return {argument, [destroy](void* pointer) {
            if (destroy != nullptr) destroy(pointer);
          }};
}

}  // namespace
}  // namespace softgpu

using softgpu::Action;
using softgpu::Always;
using softgpu::Enter;
using softgpu::Submit;

extern "C" {

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  SOFTGPU_TRY(Enter());
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Action run = [=] {
    softgpu::HostFunctionScope scope;
    function(data);
  };
  return Submit(stream, CU_GRAPH_NODE_TYPE_HOST, Always(run), false);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned int flags) {
  SOFTGPU_TRY(Enter());
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<softgpu::Stream> stream;
  SOFTGPU_TRY(softgpu::FindStream(handle, &stream));
  SOFTGPU_TRY(softgpu::GuardCallback(stream));
  Action run = [=] {
    softgpu::HostFunctionScope scope;
    callback(handle, CUDA_SUCCESS, data);
  };
  softgpu::Enqueue(stream, run, false);
  return CUDA_SUCCESS;
}

CUresult softgpuEnqueue(CUstream stream, void (*function)(void*), void* argument, void (*destroy)(void*)) {
  std::shared_ptr<void> owned = softgpu::Owned(argument, destroy);
  SOFTGPU_TRY(Enter());
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Action run = [function, owned] { function(owned.get()); };
  owned.reset();
  return Submit(stream, CU_GRAPH_NODE_TYPE_KERNEL, Always(std::move(run)), false);
}

CUresult softgpuStall(CUstream handle, int milliseconds) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<softgpu::Stream> stream;
  SOFTGPU_TRY(softgpu::FindStream(handle, &stream));
  auto latch = std::make_shared<softgpu::Latch>();
  stream->AddLatch(latch);
  return Submit(handle, CU_GRAPH_NODE_TYPE_KERNEL, Always([=] { latch->WaitFor(milliseconds); }), false);
}

CUresult softgpuRelease(CUstream handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<softgpu::Stream> stream;
  SOFTGPU_TRY(softgpu::FindStream(handle, &stream));
  stream->OpenLatches();
  return CUDA_SUCCESS;
}

CUresult softgpuStreamDepth(CUstream handle, unsigned long long* unfinished) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<softgpu::Stream> stream;
  SOFTGPU_TRY(softgpu::FindStream(handle, &stream));
  *unfinished = stream->unfinished();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return softgpu::OneOperation(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return softgpu::OneOperation(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return softgpu::OneOperation(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return softgpu::OneOperation(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}
CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                                       unsigned int flags) {
  return flags == 0 ? softgpu::MemoryOperations(stream, count, operations) : CUDA_ERROR_INVALID_VALUE;
}

// The names without _v2 are the first form of the same calls; drivers since CUDA 12 have them do the same.
CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return cuStreamWriteValue32_v2(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return cuStreamWriteValue64_v2(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return cuStreamWaitValue32_v2(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return cuStreamWaitValue64_v2(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                                    unsigned int flags) {
  return cuStreamBatchMemOp_v2(stream, count, operations, flags);
}

// No device code runs here.
CUresult CUDAAPI cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                unsigned int, unsigned int, CUstream, void**, void**) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
                                           unsigned int, unsigned int, unsigned int, CUstream, void**) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuModuleLoad(CUmodule*, const char*) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuModuleLoadData(CUmodule*, const void*) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule*, const void*, unsigned int, CUjit_option*, void**) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule*, const void*) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuLibraryLoadData(CUlibrary*, const void*, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                                   void**, unsigned int) {
  SOFTGPU_TRY(Enter());
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
