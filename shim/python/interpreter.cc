#include "shim/python/interpreter.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "shim/python/frames.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim::pyframes {
namespace {

using cpython::Layout;

template <class Pointer>
bool FindSymbol(const char* name, Pointer* to) {
  *to = reinterpret_cast<Pointer>(resolve::Dlsym(RTLD_DEFAULT, name));
  return *to != nullptr;
}

bool FindLayout(const void* runtime, Layout* layout) {
  OwnMemory memory;
  const cpython::SaidLayout said = cpython::ReadLayout(&memory, reinterpret_cast<std::uint64_t>(runtime));
  if (said.layout) *layout = *said.layout;
  if (said.version != 0) return said.layout.has_value();
  const char* (*version)() = nullptr;
  void* debug_build = nullptr;  // it has further fields in between
  if (!FindSymbol("Py_GetVersion", &version) || FindSymbol("_Py_NegativeRefcount", &debug_build)) return false;
  const char* const text = version();
  const auto known = std::strncmp(text, "3.", 2) == 0 ? cpython::KnownLayout(std::atoi(text + 2), false) : std::nullopt;
  if (known) *layout = *known;
  return known && known->minor < cpython::kFirstSayingMinor;
}

}  // namespace

Found Find(Interpreter* interpreter) {
  void *runtime = nullptr, *code_type = nullptr;
  if (!FindSymbol("_PyRuntime", &runtime) || !FindSymbol("PyCode_Type", &code_type) ||
      !FindSymbol("PyGILState_GetThisThreadState", &interpreter->this_thread) ||
      !FindSymbol("Py_IsInitialized", &interpreter->is_initialized))
    return Found::kNone;
  if (!FindLayout(runtime, &interpreter->layout)) return Found::kUnknown;
  interpreter->runtime = reinterpret_cast<std::uint64_t>(runtime);
  interpreter->code_type = reinterpret_cast<std::uint64_t>(code_type);
  SetSizes(interpreter);
  return Found::kKnown;
}

}  // namespace ncclwatch::shim::pyframes
