#include "watchdog/watch/base/clock.h"

#include <cstdlib>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kShortestBase_ns = 500'000'000;  // below it the reading errors would show in the slope
constexpr std::int64_t kTolerance_ns = 5'000;           // how far the newest anchor may have drifted
constexpr std::int64_t kRealtimeStep_ns =
    1'000'000;  // less is the time between two readings; slewing moves both clocks

std::int64_t Read(clockid_t id) {
  timespec now = {};
  clock_gettime(id, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// The counter that the recorder stamps with.
std::uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<std::uint64_t>(Monotonic());
#endif
}

// The counter and CLOCK_MONOTONIC at one instant, give or take error_ns.
struct Pair {
  std::uint64_t ticks = 0;
  std::int64_t monotonic_ns = 0;
  std::int64_t error_ns = INT64_MAX;
};

// The tightest of a few readings: a preemption between the two would move the whole clock.
Pair ReadPair() {
  Pair best;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t before = Monotonic();
    const std::uint64_t ticks = Ticks();
    const std::int64_t after = Monotonic();
    if (after - before < best.error_ns) best = {ticks, before + (after - before) / 2, after - before};
  }
  return best;
}

}  // namespace

std::int64_t Monotonic() { return Read(CLOCK_MONOTONIC); }
std::int64_t Realtime() { return Read(CLOCK_REALTIME); }

void ClockKeeper::Check() {
  CheckRealtime();
  if (clock_->source == static_cast<std::uint32_t>(format::ClockSource::kCycleCounter)) CheckCounter();
}

void ClockKeeper::CheckRealtime() {
  const std::int64_t before = Monotonic(), realtime = Realtime(), after = Monotonic();
  if (after - before > kRealtimeStep_ns / 2) return;  // held up in between: another time
  const std::int64_t offset = realtime - before;
  const std::int64_t reported = clock_->realtime_minus_monotonic_ns.load(std::memory_order_relaxed);
  if (std::abs(offset - reported) > kRealtimeStep_ns)
    clock_->realtime_minus_monotonic_ns.store(offset, std::memory_order_release);
}

void ClockKeeper::CheckCounter() {
  const std::uint32_t anchored = clock_->anchored.load(std::memory_order_relaxed);
  if (anchored == 0) return;
  const format::ClockAnchor& newest = clock_->anchors[(anchored - 1) % format::kClockAnchors];
  const Pair now = ReadPair();
  const std::int64_t base = now.monotonic_ns - newest.monotonic_ns;
  if (base < kShortestBase_ns || now.ticks <= newest.ticks) return;
  const double passed = static_cast<double>(now.ticks - newest.ticks);
  const std::int64_t reported = static_cast<std::int64_t>(passed * newest.ns_per_tick);
  if (std::abs(reported - base) <= kTolerance_ns + now.error_ns) return;
  format::ClockAnchor* next = &clock_->anchors[anchored % format::kClockAnchors];
  double ns_per_tick = static_cast<double>(base) / passed;  // clang stores from nothing const
  __atomic_store_n(&next->ticks, now.ticks, __ATOMIC_RELAXED);
  __atomic_store_n(&next->monotonic_ns, now.monotonic_ns, __ATOMIC_RELAXED);
  __atomic_store(&next->ns_per_tick, &ns_per_tick, __ATOMIC_RELAXED);
  clock_->anchored.store(anchored + 1,
                         std::memory_order_release);  // pairs with the acquire of every reader of the clock
}

}  // namespace ncclwatch::watch
