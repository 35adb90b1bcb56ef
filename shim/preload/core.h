// Between the two files of the library. libncclwatch.so is what processes preload: entries of all functions that are
// wrapped, no other code of ours, and no needs: no library, no symbol version. libncclwatch-core.so
// beside it holds everything else, and is opened by the first call of NCCL or MPI. So a process that makes none, or
// whose C library is not one that the core can run on, has nothing of ours but the entries.
#pragma once

#include <cstdint>

namespace ncclwatch::shim::preload {

// Goes up with every change of the structs below or of the order of the entries: both files are of one build.
inline constexpr std::uint32_t kVersion = 1;

// Which file a descriptor of the process was when the preloaded file was loaded.
struct File {
  bool open;
  std::uint32_t mode;
  std::uint64_t device;
  std::uint64_t inode;
  std::uint64_t special;  // of a device: which one
};

// What the preloaded file gives to the core. Lives as long as the process.
struct Preload {
  std::uint32_t version;
  std::uint32_t entries;
  const char* path;      // of the preloaded file, absolute
  std::uintptr_t begin;  // where it lies
  std::uintptr_t end;
  void* (*dlsym)(void* handle, const char* name);  // the C library's, or that of a preload behind us
  void* (*next)(const char* name);                 // behind the preloaded file in load order; null: nowhere
  // What the entries of the functions lead to: the application's calls go there. Each is one pointer.
  void** slots;
  File standard[3];  // 0 is not looked at
};

// What the core gives back.
struct Core {
  std::uint32_t version;
  std::uint32_t entries;
  void* const* wrappers;                                                     // one for each entry, in their order
  void* (*answer)(void* handle, const char* name);                           // of dlsym, for names of NCCL
  void* (*answer_cuda)(void* handle, const char* name, const void* caller);  // for names of the CUDA driver
};

// The core's one exported function. Any thread may call it, any number of times; all get the same.
inline constexpr char kOpen[] = "ncclwatch_core_open";
using Open = const Core* (*)(const Preload*);

}  // namespace ncclwatch::shim::preload
