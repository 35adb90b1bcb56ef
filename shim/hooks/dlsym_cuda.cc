// What our dlsym answers for names of the CUDA driver that allocate, or that find such ones (functions/cuda.def).
#include <dlfcn.h>

#include <cstdint>

#include "shim/base/keep_errno.h"
#include "shim/hooks/allocations.h"
#include "shim/hooks/answer.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim::resolve {
namespace {

void* const kNotOurs = reinterpret_cast<void*>(~std::uintptr_t{0});  // the stubs know it

// The global scope, where we stand in front of everybody: what the caller would find there or in its own scope if we
// were not there. Programs ask in this way whether CUDA is there at all.
void* WithoutUs(const char* name, const void* caller) {
  if (void* behind = Next(name)) return behind;
  const KeepErrno keep;
  Module module;
  if (!ModuleOf(caller, &module) || !module.path[0]) return nullptr;
  void* const scope = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY);
  if (!scope) return nullptr;
  void* const found = Dlsym(scope, name);
  dlclose(scope);
  return found && !IsOurs(found) ? found : nullptr;
}

}  // namespace

void* AnswerCuda(void* handle, const char* name, const void* caller) {
  if (!IsAllocation(name)) return kNotOurs;
  void* real = handle == RTLD_DEFAULT ? WithoutUs(name, caller) : Dlsym(handle, name);
  if (real && IsOurs(real)) real = WithoutUs(name, caller);  // a handle of the global scope
  // What is missing is asked for once more, for what dlerror() says.
  return real ? WrapperOf(name, real) : Next(name);
}

}  // namespace ncclwatch::shim::resolve
