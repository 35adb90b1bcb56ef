// Reading this process's own memory where it may not be there: in a signal handler, on a stack that may be damaged.
// Async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncclwatch::shim {

inline constexpr std::uint64_t kSmallestPage = 4096;

// False if any of the bytes cannot be read; then some may have been copied.
bool ReadSelf(std::uint64_t address, void* to, std::size_t bytes);

template <class T>
bool ReadSelf(std::uint64_t address, T* to) {
  return ReadSelf(address, to, sizeof(T));
}

bool CanBeRead(std::uint64_t address);  // eight bytes; by the kernel's own look at them

// A zero-terminated text, cut to `size` - 1 bytes. Empty if it cannot be read.
void ReadSelfText(std::uint64_t address, char* to, std::size_t size);

}  // namespace ncclwatch::shim
