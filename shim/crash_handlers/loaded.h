// Which loaded module holds an address, without the loader's lock: in a signal handler.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace ncclwatch::shim {

struct Loaded {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t bias = 0;  // what the loader added to the module's own addresses
  std::uint64_t name = 0;  // address of its path as the loader keeps it; an empty text is the program itself
};

// Outside of signal handlers, one thread at a time: finds glibc's own way (2.35), else remembers what is loaded by now.
void PrepareLoaded();

// Async-signal-safe.
bool FindLoaded(std::uint64_t address, Loaded* module);
// Its path as /proc would show it, empty if it cannot be told. Async-signal-safe.
void PathOf(const Loaded& module, char* path, std::size_t size);

// What is needed of a module without a system call.
struct Executing {
  std::uint64_t begin = 0;
  std::uint64_t bias = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  char file[48] = {};  // the beginning of its name without folders; empty for the program itself
};
// The module of an instruction on this thread's own stack: nobody unloads it meanwhile. Async-signal-safe.
bool FindExecuting(std::uint64_t address, Executing* module);

}  // namespace ncclwatch::shim
