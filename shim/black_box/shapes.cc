#include "shim/black_box/shapes.h"

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::shim {

bool Shapes::IsFirst(std::uint32_t generation, std::uint64_t position, std::uint64_t fingerprint) {
  const std::uint64_t period = std::uint64_t{generation} << 40 | position / kPeriod;
  if (period_.load(std::memory_order_relaxed) != period) {
    for (std::atomic<std::uint64_t>& word : seen_) word.store(0, std::memory_order_relaxed);
    period_.store(period, std::memory_order_relaxed);
  }
  const std::uint64_t bit = format::Mix(period, fingerprint) >> (64 - kBits);
  std::atomic<std::uint64_t>& word = seen_[bit / 64];
  const std::uint64_t before = word.load(std::memory_order_relaxed), with = before | std::uint64_t{1} << bit % 64;
  word.store(with, std::memory_order_relaxed);
  return before != with;
}

}  // namespace ncclwatch::shim
