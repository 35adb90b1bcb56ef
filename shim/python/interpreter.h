// The CPython of this process, and what is read of its frames.
#pragma once

#include <cstdint>

#include "watchdog/cpython/layout.h"

namespace ncclwatch::shim::pyframes {

struct Interpreter {
  cpython::Layout layout;
  std::uint64_t runtime = 0;      // address of _PyRuntime
  std::uint64_t code_type = 0;    // address of PyCode_Type
  std::uint32_t frame_bytes = 0;  // that hold all fields of a frame, of a code object
  std::uint32_t code_bytes = 0;
  void* (*this_thread)() = nullptr;   // PyGILState_GetThisThreadState: needs no lock
  int (*is_initialized)() = nullptr;  // false from the moment at which its end begins
};

enum class Found : std::uint8_t { kNone, kUnknown, kKnown };  // kUnknown: a build whose layout is not known
Found Find(Interpreter* interpreter);

}  // namespace ncclwatch::shim::pyframes
