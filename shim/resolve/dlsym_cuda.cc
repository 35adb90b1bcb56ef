// What our dlsym answers for names of the CUDA driver that allocate, or that find such ones (functions/cuda.def).
#include <dlfcn.h>

#include <cstdint>

#include "shim/hooks/allocations.h"
#include "shim/lifecycle/keep_errno.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/real_dlsym.h"

extern "C" {
// For names that begin with "cuM" or "cuG". kNotOurs: the C library shall answer, and see the caller as its own.
__attribute__((visibility("hidden"))) void* ncclwatch_answer_cuda(void* handle, const char* name, const void* caller);
}

namespace ncclwatch::shim::resolve {
namespace {

void* const kNotOurs = reinterpret_cast<void*>(~std::uintptr_t{0});  // the stubs know it

bool IsOurs(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= OwnModule().begin && at < OwnModule().end;
}

// RTLD_NEXT is judged by the return address: never a tail call.
void* BehindUs(const char* name) {
  void* found = RealDlsym()(RTLD_NEXT, name);
  asm volatile("" : "+r"(found));
  return found;
}

// The global scope, where we stand in front of everybody: what the caller would find there or in its own scope if we
// were not there. Programs ask in this way whether CUDA is there at all.
void* WithoutUs(const char* name, const void* caller) {
  if (void* behind = BehindUs(name)) return behind;
  const KeepErrno keep;
  Module module;
  if (!ModuleOf(caller, &module) || !module.path[0]) return nullptr;
  void* const scope = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY);
  if (!scope) return nullptr;
  void* const found = RealDlsym()(scope, name);
  dlclose(scope);
  return found && !IsOurs(found) ? found : nullptr;
}

}  // namespace
}  // namespace ncclwatch::shim::resolve

void* ncclwatch_answer_cuda(void* handle, const char* name, const void* caller) {
  using namespace ncclwatch::shim;
  using namespace ncclwatch::shim::resolve;
  if (!IsAllocation(name)) return kNotOurs;
  void* real = handle == RTLD_DEFAULT ? WithoutUs(name, caller) : RealDlsym()(handle, name);
  if (real && IsOurs(real)) real = WithoutUs(name, caller);  // a handle of the global scope
  // What is missing is asked for once more, for what dlerror() says.
  return real ? WrapperOf(name, real) : BehindUs(name);
}
