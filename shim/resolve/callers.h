// Whose library a call through the PLT is for. We stand in the global scope, in front of everybody. Where the global
// scope holds an NCCL behind us, the dynamic linker would send all modules to it: library 0. Where it holds none,
// modules opened with RTLD_LOCAL (Python's extensions) would reach each the copy in its own scope.
#pragma once

#include <cstdint>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::shim::resolve {

// Whether the module of a caller has been looked at. Takes no lock.
bool Knows(std::uint64_t site);
// Looks whether libraries have come or gone, and at the module that calls. For the calls that begin the use of a
// library; those after them find what was found then. Takes the loader's lock: never from a call that NCCL itself would
// answer in a signal handler.
void Survey(std::uint64_t site);

struct Own {
  std::uint32_t library = 0;  // whose wrapper the call is for
  void* real = nullptr;       // not null: to be called as it is, unrecorded
};
// Of the function that is called from `site`.
Own OwnOf(std::uint64_t site, functions::Function function);

}  // namespace ncclwatch::shim::resolve
