// Stamps: the cycle counter where the kernel itself trusts it as clock source, else CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <ctime>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::shim::clock {

// Set by Start, before the first box is published; never changed afterwards.
extern bool uses_counter;

inline std::int64_t Nanoseconds(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline std::uint64_t Counter() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
#error "no cycle counter known for this processor"
#endif
}

inline std::uint64_t Ticks() {
  if (uses_counter) [[likely]]
    return Counter();
  return static_cast<std::uint64_t>(Nanoseconds(CLOCK_MONOTONIC));
}

// One instant on all clocks.
struct Reading {
  std::uint64_t ticks;
  std::int64_t monotonic_ns;
  std::int64_t realtime_ns;
};
Reading Read();

void Start();
// Writes the first anchor from two readings; waits until they are far enough apart to give a rate.
void Anchor(format::Clock& clock, const Reading& first);

}  // namespace ncclwatch::shim::clock
