// The NCCL libraries of the process and their functions. Library 0 is the one that calls through the PLT reach, but for
// modules with a copy of their own (callers.h); others are found when somebody asks dlsym for a function on a handle of
// theirs.
#pragma once

#include <atomic>
#include <cstdint>

#include "ncclwatch/functions/function.h"
#include "shim/base/nccl_compat.h"

namespace ncclwatch::shim::resolve {

inline constexpr std::uint32_t kLibraries = 4;
inline constexpr std::uint32_t kNumbers = 256;  // function numbers are below it

struct Library {
  // Of the loaded module. begin is released last: a library with begin != 0 is whole.
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> bytes{0};
  void* handle = nullptr;  // keeps the module loaded: its functions must not go away under us
  char path[512] = {};
  // Null: not asked for yet. Set once, to the same value whoever sets it.
  std::atomic<void*> functions[kNumbers] = {};
};
extern Library libraries[kLibraries];
// True once there may be more than library 0 to choose from. Never false again.
extern std::atomic<bool> several;

// The real function, or null if the library has none of this name (or there is no library).
void* FindReal(std::uint32_t library, functions::Function function);
inline void* Real(std::uint32_t library, functions::Function function) {
  void* known = libraries[library].functions[static_cast<std::uint32_t>(function)].load(std::memory_order_relaxed);
  if (known) [[likely]]
    return known;
  return FindReal(library, function);
}

// Whether a return address lies in the library itself: NCCL calls its own functions through the PLT.
inline bool CallsItself(std::uint32_t library, std::uint64_t site) {
  const Library& own = libraries[library];
  return site - own.begin.load(std::memory_order_relaxed) < own.bytes.load(std::memory_order_relaxed);
}

// The number of the library that an address belongs to, made known if it is new; kLibraries if there are too many,
// which is said once.
std::uint32_t LibraryOf(const void* address);
// Library 0, looked for among the loaded ones if it is not known yet, and else opened if that may be: a process that
// only brings a library of its own must not get another one. False: there is none.
bool FindDefault(bool may_open);

// Says once that a function is missing, and returns what the caller is told.
ncclResult_t Missing(std::uint32_t library, functions::Function function);

// Questions to a library, past the wrappers. False if it cannot answer.
bool Version(std::uint32_t library, int* version);
bool Rank(std::uint32_t library, ncclComm_t comm, int* rank);
bool Size(std::uint32_t library, ncclComm_t comm, int* size);
bool Device(std::uint32_t library, ncclComm_t comm, int* device);

}  // namespace ncclwatch::shim::resolve
