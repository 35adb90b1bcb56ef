#include "shim/profiler/rate.h"

#include <algorithm>
#include <bit>

namespace ncclwatch::shim::profiler {

void Rate::Count(std::uint32_t most, std::int64_t now_ns) {
  constexpr std::int64_t kTimed_each_second = 64;
  const std::int64_t before = counted_ns_.exchange(now_ns, std::memory_order_relaxed);
  if (before == 0 || now_ns <= before) return;
  const std::int64_t calls_each_second = kCalls * 1'000'000'000 / (now_ns - before);
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(1, calls_each_second / kTimed_each_second));
  every_.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(most, std::bit_ceil(wanted))),
               std::memory_order_relaxed);
}

}  // namespace ncclwatch::shim::profiler
