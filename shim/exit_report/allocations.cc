#include "shim/exit_report/allocations.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/keep_errno.h"
#include "shim/exit_report/write.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim {

constinit std::atomic<std::uint64_t> awaited_bytes{UINT64_MAX};

namespace {

// The entry that awaited_bytes speaks of, and when it was written, by which it is known again.
constinit std::atomic<std::uint64_t> awaited_number{0};
constinit std::atomic<std::int32_t> awaited_by{0};  // pid: not a fork child's

struct Figures {
  std::int32_t device = -1;
  std::size_t free = 0;
  std::size_t total = 0;
};

// Of the device of the current context, by the driver that `real` belongs to. No call of the runtime: what
// cudaGetLastError() says is the application's.
Figures Ask(void* real) {
  Figures figures;
  resolve::Module module;
  if (!resolve::ModuleOf(real, &module)) return figures;
  void* const library = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return figures;
  const auto find = [library](const char* name) { return resolve::Dlsym(library, name); };
  const auto info = reinterpret_cast<CUresult (*)(std::size_t*, std::size_t*)>(find("cuMemGetInfo_v2"));
  const auto device = reinterpret_cast<CUresult (*)(CUdevice*)>(find("cuCtxGetDevice"));
  const auto exchange = reinterpret_cast<CUresult (*)(CUstreamCaptureMode*)>(find("cuThreadExchangeStreamCaptureMode"));
  // Another thread's capture is not spoilt by a question of ours.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const bool exchanged = exchange && exchange(&mode) == CUDA_SUCCESS;
  CUdevice current = -1;
  if (device && device(&current) == CUDA_SUCCESS) figures.device = current;
  if (info && info(&figures.free, &figures.total) != CUDA_SUCCESS) figures.free = figures.total = 0;
  if (exchanged) exchange(&mode);
  dlclose(library);
  return figures;
}

void Write(Box& box, std::uint32_t function, std::uint64_t bytes, int result, const Figures& figures) {
  const std::uint64_t number = box.words->allocations_failed.fetch_add(1, std::memory_order_relaxed);
  WriteEntry(box.words->allocations[number % format::kFailedAllocations], number, [&](format::FailedAllocation& entry) {
    entry.recovered_ns.store(0, std::memory_order_relaxed);
    Put(entry.bytes, bytes);
    Put(entry.free_bytes, figures.free);
    Put(entry.total_bytes, figures.total);
    Put(entry.function, function);
    Put(entry.result, result);
    Put(entry.device, figures.device);
    Put(entry.thread, static_cast<std::uint32_t>(syscall(SYS_gettid)));
  });
  awaited_number.store(number, std::memory_order_relaxed);
  awaited_by.store(static_cast<std::int32_t>(box.pid), std::memory_order_relaxed);
  awaited_bytes.store(bytes, std::memory_order_release);
}

}  // namespace

void NoteFailedAllocation(void* real, std::uint32_t row, std::uint64_t bytes, int result, int device) {
  const KeepErrno keep;
  Box* const box = BoxToSpeakIn();
  if (!box || !box->Watching()) return;
  Figures figures = Ask(real);
  if (device >= 0 && device != figures.device) figures = {device, 0, 0};  // the figures are another device's
  Write(*box, row, bytes, result, figures);
}

void NoteFailedMemAlloc(Box& box, std::uint64_t bytes, int result) {
  if (BoxToSpeakIn() != &box) return;
  // What CUDA refused inside of it has just been noted, with the figures.
  constexpr std::int64_t kJust_ns = 1'000'000'000;
  const format::FailedAllocation& inner = box.words->allocations[awaited_number % format::kFailedAllocations];
  Figures figures;
  if (awaited_bytes != UINT64_MAX && inner.thread == static_cast<std::uint32_t>(syscall(SYS_gettid)) &&
      clock::Nanoseconds(CLOCK_MONOTONIC) - inner.at_ns < kJust_ns)
    figures = {inner.device, inner.free_bytes, inner.total_bytes};
  Write(box, format::kNcclMemAlloc, bytes, result, figures);
}

void NoteRecovery(void* real) {
  const KeepErrno keep;
  Box* const box = BoxToSpeakIn();
  if (!box || awaited_by.load(std::memory_order_relaxed) != static_cast<std::int32_t>(box->pid)) {
    awaited_bytes.store(UINT64_MAX, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t number = awaited_number.load(std::memory_order_relaxed);
  format::FailedAllocation& entry = box->words->allocations[number % format::kFailedAllocations];
  const std::int32_t device = std::atomic_ref(entry.device).load(std::memory_order_relaxed);
  if (device >= 0 && Ask(real).device != device) return;  // room on another device is no help
  awaited_bytes.store(UINT64_MAX, std::memory_order_relaxed);
  if (entry.commit.load(std::memory_order_acquire) == number + 1)
    entry.recovered_ns.store(clock::Nanoseconds(CLOCK_MONOTONIC), std::memory_order_release);
}

}  // namespace ncclwatch::shim
