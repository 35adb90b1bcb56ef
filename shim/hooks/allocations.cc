#include "shim/hooks/allocations.h"

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "shim/base/export.h"
#include "shim/base/keep_errno.h"
#include "shim/exit_report/allocations.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim {

inline int DeviceOf(const CUmemAllocationProp* properties) {
  return properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : -1;
}

namespace {

enum Row : std::uint32_t {
#define ALLOCATION(number, name, ...) k_##name,
#include "ncclwatch/functions/cuda.def"
  kRows
};

// Several libcudas in one process (a stub, a simulation) are told apart by their functions.
constexpr std::uint32_t kSlots = 4;
constinit std::atomic<void*> reals[kRows][kSlots] = {};

// The first wrapper in a chain of them knows best what was asked for: the runtime may come through two.
thread_local constinit bool inside __attribute__((tls_model("initial-exec"))) = false;

template <class Real, class... A>
[[gnu::always_inline]] inline CUresult Pass(void* real, std::uint32_t number, std::uint64_t bytes, int device,
                                            A... arguments) {
  const bool outermost = !inside;
  inside = true;
  const CUresult result = reinterpret_cast<Real>(real)(arguments...);
  if (outermost) inside = false;
  if (result == CUDA_SUCCESS) [[likely]] {
    if (bytes >= awaited_bytes.load(std::memory_order_relaxed)) [[unlikely]]
      NoteRecovery(real);
  } else if (result == CUDA_ERROR_OUT_OF_MEMORY && outermost) {
    NoteFailedAllocation(real, number, bytes, result, device);
  }
  return result;
}

// For a call through the PLT: who would have been called if we were not in front.
void* Behind(std::atomic<void*>& known, const char* name) {
  if (void* real = known.load(std::memory_order_relaxed)) return real;
  const KeepErrno keep;
  void* real = resolve::Next(name);
  resolve::Module module;
  if ((!real || resolve::IsOurs(real)) && resolve::ModuleNamed("libcuda.so", nullptr, &module)) {
    void* const library = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
    real = library ? resolve::Dlsym(library, name) : nullptr;
  }
  if (!real || resolve::IsOurs(real)) return nullptr;
  known.store(real, std::memory_order_relaxed);
  return real;
}

template <Row row, std::uint32_t slot>
struct Wrapper;
// NOLINTBEGIN(bugprone-macro-parentheses): lists of parameters are no expressions
#define ALLOCATION(number, name, plain, parameters, arguments, bytes, device)                \
  template <std::uint32_t slot>                                                              \
  struct Wrapper<k_##name, slot> {                                                           \
    static CUresult CUDAAPI Call parameters {                                                \
      void* const real = reals[k_##name][slot].load(std::memory_order_relaxed);              \
      return NCCLWATCH_PASS(CUresult(*) parameters, real, number, bytes, device, arguments); \
    }                                                                                        \
  };
#define NCCLWATCH_OPEN(...) __VA_ARGS__
#define NCCLWATCH_PASS(type, real, number, bytes, device, arguments) \
  Pass<type>(real, number, bytes, device, NCCLWATCH_OPEN arguments)
#include "ncclwatch/functions/cuda.def"

}  // namespace
}  // namespace ncclwatch::shim

extern "C" {
#define ALLOCATION(number, name, plain, parameters, arguments, bytes, device)              \
  NCCLWATCH_EXPORT CUresult CUDAAPI name parameters {                                      \
    static constinit std::atomic<void*> known{nullptr};                                    \
    void* const real = ncclwatch::shim::Behind(known, #name);                              \
    if (!real) return CUDA_ERROR_NOT_INITIALIZED;                                          \
    using ncclwatch::shim::Pass;                                                           \
    return NCCLWATCH_PASS(CUresult(*) parameters, real, number, bytes, device, arguments); \
  }
#include "ncclwatch/functions/cuda.def"
}
// NOLINTEND(bugprone-macro-parentheses)

namespace ncclwatch::shim {
namespace {

// Addresses only: there before any constructor has run, as dlsym may be asked by then.
struct Known {
  const char* name;
  void* wrappers[kSlots];
};
static_assert(kSlots == 4, "the table has four of each");
const Known kTable[kRows] = {
#define ALLOCATION(number, name, ...)                                                                           \
  {#name,                                                                                                       \
   {reinterpret_cast<void*>(&Wrapper<k_##name, 0>::Call), reinterpret_cast<void*>(&Wrapper<k_##name, 1>::Call), \
    reinterpret_cast<void*>(&Wrapper<k_##name, 2>::Call), reinterpret_cast<void*>(&Wrapper<k_##name, 3>::Call)}},
#include "ncclwatch/functions/cuda.def"
};

int RowOf(const char* name) {
  for (std::uint32_t row = 0; row < kRows; ++row)
    if (std::strcmp(kTable[row].name, name) == 0) return static_cast<int>(row);
  return -1;
}

// The way to all others: what it finds is wrapped too. Two forms, told apart by their numbers of arguments.
constinit std::atomic<void*> finders[2][kSlots] = {};

// cuda.h's functions before 3.2 have 32-bit sizes; cuGetProcAddress has a fifth argument since 12.0.
constexpr int kFirst64Bit = 3020;
constexpr int kFirstWithStatus = 12000;

// `name` comes without a version, as "cuMemAlloc", and stands for the symbol that programs of CUDA `version` mean.
void* Found(const char* name, int version, void* real) {
  if (!real || version < kFirst64Bit) return real;
  if (std::strcmp(name, "cuGetProcAddress") == 0 && version >= kFirstWithStatus)
    return WrapperOf("cuGetProcAddress_v2", real);
  if (void* wrapper = WrapperOf(name, real); wrapper != real) return wrapper;
  char versioned[64];
  const int length = std::snprintf(versioned, sizeof versioned, "%s_v2", name);
  return length < static_cast<int>(sizeof versioned) ? WrapperOf(versioned, real) : real;
}

template <std::uint32_t slot>
CUresult CUDAAPI FindNewer(const char* name, void** function, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult* status) {
  using Real = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const auto real = reinterpret_cast<Real>(finders[1][slot].load(std::memory_order_relaxed));
  const CUresult result = real(name, function, version, flags, status);
  if (result == CUDA_SUCCESS && name && function) *function = Found(name, version, *function);
  return result;
}
template <std::uint32_t slot>
CUresult CUDAAPI FindOlder(const char* name, void** function, int version, cuuint64_t flags) {
  using Real = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t);
  const auto real = reinterpret_cast<Real>(finders[0][slot].load(std::memory_order_relaxed));
  const CUresult result = real(name, function, version, flags);
  if (result == CUDA_SUCCESS && name && function) *function = Found(name, version, *function);
  return result;
}

void* const kFinders[2][kSlots] = {{reinterpret_cast<void*>(&FindOlder<0>), reinterpret_cast<void*>(&FindOlder<1>),
                                    reinterpret_cast<void*>(&FindOlder<2>), reinterpret_cast<void*>(&FindOlder<3>)},
                                   {reinterpret_cast<void*>(&FindNewer<0>), reinterpret_cast<void*>(&FindNewer<1>),
                                    reinterpret_cast<void*>(&FindNewer<2>), reinterpret_cast<void*>(&FindNewer<3>)}};

// The wrapper of the slot that holds `real`, or comes to hold it.
void* Slot(std::atomic<void*> (&slots)[kSlots], void* const (&wrappers)[kSlots], void* real) {
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (real == wrappers[slot]) return real;
    void* there = slots[slot].load(std::memory_order_acquire);
    if (!there && slots[slot].compare_exchange_strong(there, real, std::memory_order_acq_rel)) return wrappers[slot];
    if (there == real) return wrappers[slot];
  }
  return real;
}

int FinderOf(const char* name) {
  if (std::strcmp(name, "cuGetProcAddress") == 0) return 0;
  return std::strcmp(name, "cuGetProcAddress_v2") == 0 ? 1 : -1;
}

}  // namespace

void* WrapperOf(const char* name, void* real) {
  if (!real || resolve::IsOurs(real)) return real;
  if (const int finder = FinderOf(name); finder >= 0) return Slot(finders[finder], kFinders[finder], real);
  const int row = RowOf(name);
  return row < 0 ? real : Slot(reals[row], kTable[row].wrappers, real);
}

bool IsAllocation(const char* name) { return FinderOf(name) >= 0 || RowOf(name) >= 0; }

}  // namespace ncclwatch::shim
