// What several fuzzers make of their bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace ncclwatch::fuzz {

inline void Require(bool holds) {
  if (!holds) std::abort();
}

// Zeros once all bytes are taken.
struct Input {
  const std::uint8_t* data;
  std::size_t size;
  std::uint8_t Next() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
  std::uint64_t Number(int bytes) {
    std::uint64_t number = 0;
    for (int i = 0; i < bytes; ++i) number = number << 8 | Next();
    return number;
  }
  std::vector<std::uint8_t> Bytes(std::size_t count) {
    std::vector<std::uint8_t> bytes(std::min(count, size));
    for (std::uint8_t& byte : bytes) byte = Next();
    return bytes;
  }
};

// Overwrites pieces. Each has its place (two bytes, the first one shifted), its length, and its bytes.
template <class Byte>
void Patch(const std::uint8_t* data, std::size_t size, unsigned shift, std::vector<Byte>* bytes) {
  while (size >= 4) {
    const std::size_t offset = (std::size_t{data[0]} << shift | std::size_t{data[1]}) % bytes->size();
    const std::size_t length = std::min<std::size_t>({data[2] % 16u + 1u, size - 3, bytes->size() - offset});
    std::memcpy(bytes->data() + offset, data + 3, length);
    data += 3 + length;
    size -= 3 + length;
  }
}

}  // namespace ncclwatch::fuzz
