// Where the preloaded file itself lies: in memory, and on disk.
#pragma once

#include <link.h>

#include <cstdint>

namespace ncclwatch::shim::preload {

struct Span {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

inline constexpr std::size_t kPath = 2048;  // bytes of a path, with its end

struct OwnFile {
  Span span;
  char path[kPath] = {};  // absolute, unless neither the loader nor the kernel tells it
};

// Whether this is the module of the preloaded file; *span is where the module lies.
bool IsOwn(const dl_phdr_info& info, Span* span);
// False without dl_iterate_phdr. Any number of threads may ask, and find the same.
bool FindOwnFile(OwnFile* own);

}  // namespace ncclwatch::shim::preload
