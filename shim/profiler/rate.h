// How many calls are timed: all of them while they are few, so that a job that calls seldom is known step by step.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::shim::profiler {

class Rate {
 public:
  // Of the call that comes now and those after it one in so many is to be timed: a power of two, at most `most`. The
  // calls that ranks with different numbers have in common are those of the largest one. now_ns() is seldom called.
  std::uint32_t Every(std::uint32_t most, std::int64_t (*now_ns)()) {
    // An atomic increment would cost a quarter of a call. Where threads race, a few calls are not counted.
    const std::uint32_t calls = calls_.load(std::memory_order_relaxed);
    calls_.store(calls + 1, std::memory_order_relaxed);
    if (calls % kCalls == 0) [[unlikely]]
      Count(most, now_ns());
    return every_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kCalls = 64;

  void Count(std::uint32_t most, std::int64_t now_ns);

  std::atomic<std::uint32_t> calls_{0}, every_{1};
  std::atomic<std::int64_t> counted_ns_{0};  // at the last multiple of kCalls
};

}  // namespace ncclwatch::shim::profiler
