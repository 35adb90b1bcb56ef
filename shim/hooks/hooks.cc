// The wrappers themselves: one exported function a row, and the same again for each further NCCL library of the
// process, which only dlsym hands out.
#include "shim/hooks/hook.h"

#include "shim/base/export.h"
#include "shim/hooks/entries.h"

// nccl.h warns of functions that it will drop; callers of them are served all the same.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using ncclwatch::functions::Function;
using ncclwatch::shim::Hook;

// In the wrapper itself, so that the addresses are those of the application's call.
#define NCCLWATCH_HERE \
  { __builtin_return_address(0), __builtin_frame_address(0) }

extern "C" {
#define HOOK_AS(result, number, name, family, parameters, arguments)            \
  NCCLWATCH_EXPORT result name parameters {                                     \
    return Hook<Function::name, 0, result parameters> NCCLWATCH_HERE arguments; \
  }
#define HOOK(number, name, family, parameters, arguments) \
  HOOK_AS(ncclResult_t, number, name, family, parameters, arguments)
#include "ncclwatch/functions/nccl.def"
#undef HOOK
}

namespace ncclwatch::shim {
namespace {

template <std::uint32_t library>
struct Wrappers {
#define HOOK_AS(result, number, name, family, parameters, arguments) \
  static result name parameters { return Hook<Function::name, library, result parameters> NCCLWATCH_HERE arguments; }
#define HOOK(number, name, family, parameters, arguments) \
  HOOK_AS(ncclResult_t, number, name, family, parameters, arguments)
#include "ncclwatch/functions/nccl.def"
#undef HOOK

  static void* Find(Function function) {
    switch (function) {
#define HOOK(number, name, family, parameters, arguments) \
  case Function::name:                                    \
    return reinterpret_cast<void*>(&Wrappers::name);
#include "ncclwatch/functions/nccl.def"
#undef HOOK
      default: return nullptr;
    }
  }
};

void* Exported(Function function) {
  switch (function) {
#define HOOK(number, name, family, parameters, arguments) \
  case Function::name:                                    \
    return reinterpret_cast<void*>(&::name);
#include "ncclwatch/functions/nccl.def"
#undef HOOK
    default: return nullptr;
  }
}

static_assert(resolve::kLibraries == 4, "Entry knows four");

}  // namespace

const functions::FunctionInfo* FindEntry(std::string_view name) {
  for (const functions::FunctionInfo& info : functions::kFunctions)
    if (info.name == name) return &info;
  return nullptr;
}

void* Entry(std::uint32_t library, Function function) {
  switch (library) {
    case 0: return Exported(function);
    case 1: return Wrappers<1>::Find(function);
    case 2: return Wrappers<2>::Find(function);
    case 3: return Wrappers<3>::Find(function);
    default: return nullptr;
  }
}

}  // namespace ncclwatch::shim
