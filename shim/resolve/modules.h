// The modules that the dynamic loader has mapped.
#pragma once

#include <cstdint>

namespace ncclwatch::shim::resolve {

struct Module {
  std::uintptr_t begin = 0;  // of its segments
  std::uintptr_t end = 0;
  char path[512] = {};  // as the loader knows it; empty for the program itself
};

// The module that an address lies in. False if it is in none.
bool ModuleOf(const void* address, Module* module);
// The first module whose file name begins with `name`; one in the directory of `beside` goes before all others.
bool ModuleNamed(const char* name, const char* beside, Module* module);
// How many modules have been unloaded so far: while it stays the same, so does what ModuleOf() found.
std::uint64_t Unloaded();
// Where this library itself lies.
const Module& OwnModule();

}  // namespace ncclwatch::shim::resolve
