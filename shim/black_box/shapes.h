// Which shapes of collectives one communicator has had lately: operation, count, type, reduction and root. It follows
// from the communicator's calls, so all its ranks know the same.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::shim {

class Shapes {
 public:
  // The first collective of this shape in its period of positions. A shape may be taken for another one.
  bool IsFirst(std::uint32_t generation, std::uint64_t position, std::uint64_t fingerprint);

 private:
  static constexpr std::uint64_t kPeriod = 1024;
  static constexpr unsigned kBits = 9;

  std::atomic<std::uint64_t> period_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> seen_[(1u << kBits) / 64] = {};
};

}  // namespace ncclwatch::shim
