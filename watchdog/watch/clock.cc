#include "watchdog/watch/clock.h"

#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kShortestBase_ns = 100'000'000;  // below it the reading errors would show in the slope

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

}  // namespace

std::int64_t Monotonic() { return Read(CLOCK_MONOTONIC); }
std::int64_t Realtime() { return Read(CLOCK_REALTIME); }

ClockKeeper::ClockKeeper(format::Header* own)
    : clock_(&own->clock), first_(own->clock.anchors[own->clock.current.load(std::memory_order_acquire) & 1]) {}

void ClockKeeper::Reanchor() {
  const std::uint32_t next = (clock_->current.load(std::memory_order_relaxed) + 1) & 1;
  format::ClockAnchor anchor = first_;
  const bool counter = clock_->source == static_cast<std::uint32_t>(format::ClockSource::kCycleCounter);
  // The tightest of a few pairs of readings: a preemption between the two would move the whole clock.
  std::int64_t tightest = INT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t before = Monotonic();
    const std::uint64_t ticks = counter ? Ticks() : static_cast<std::uint64_t>(before);
    const std::int64_t after = counter ? Monotonic() : before;
    if (after - before >= tightest) continue;
    tightest = after - before;
    anchor.ticks = ticks;
    anchor.monotonic_ns = before + (after - before) / 2;
  }
  anchor.realtime_ns = anchor.monotonic_ns + (Realtime() - Monotonic());
  const std::int64_t base = anchor.monotonic_ns - first_.monotonic_ns;
  if (counter && base < kShortestBase_ns) return;
  if (counter && anchor.ticks > first_.ticks)
    anchor.ns_per_tick = static_cast<double>(base) / static_cast<double>(anchor.ticks - first_.ticks);
  format::ClockAnchor* to = &clock_->anchors[next];
  __atomic_store_n(&to->ticks, anchor.ticks, __ATOMIC_RELAXED);
  __atomic_store_n(&to->monotonic_ns, anchor.monotonic_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&to->realtime_ns, anchor.realtime_ns, __ATOMIC_RELAXED);
  to->ns_per_tick = anchor.ns_per_tick;
  clock_->current.store(next, std::memory_order_release);  // pairs with the acquire of every reader of the clock
}

}  // namespace ncclwatch::watch
