// Where bytes at addresses of a process come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

namespace ncclwatch::cpython {

class Reader {
 public:
  virtual ~Reader() = default;
  // All of it or nothing.
  virtual bool Read(std::uint64_t address, void* to, std::size_t bytes) = 0;
  // What is read from now on is newer than this call.
  virtual void Forget() {}

  template <typename T>
  std::optional<T> Value(std::uint64_t address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!Read(address, &value, sizeof(value))) return std::nullopt;
    return value;
  }
  // Up to its NUL, at most `limit` bytes; what could be read if the memory ends first, none if nothing could.
  std::optional<std::string> Text(std::uint64_t address, std::size_t limit = 512);
};

}  // namespace ncclwatch::cpython
