#include "shim/base/clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

namespace ncclwatch::shim::clock {

bool uses_counter = false;

namespace {

constexpr char kClockSource[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
#if defined(__x86_64__)
constexpr char kTrusted[] = "tsc";
#else
constexpr char kTrusted[] = "arch_sys_counter";
#endif

// Far enough apart that the error of reading two clocks (some 50 ns) is below 30 parts in a million; the watchdog
// refines it later.
constexpr std::int64_t kBaseline_ns = 2'000'000;
constexpr int kAttempts = 5;  // the reading least disturbed counts

bool KernelTrustsCounter() {
  const int fd = open(kClockSource, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[32] = {};
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  return got > 0 && std::strncmp(text, kTrusted, std::strlen(kTrusted)) == 0;
}

}  // namespace

void Start() { uses_counter = KernelTrustsCounter(); }

Reading Read() {
  Reading best{};
  std::uint64_t narrowest = ~std::uint64_t{0};
  for (int i = 0; i < kAttempts; ++i) {
    const std::uint64_t before = Counter();
    const std::int64_t monotonic = Nanoseconds(CLOCK_MONOTONIC);
    const std::uint64_t after = Counter();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best.ticks = uses_counter ? before + narrowest / 2 : static_cast<std::uint64_t>(monotonic);
    best.monotonic_ns = monotonic;
    best.realtime_ns = monotonic + (Nanoseconds(CLOCK_REALTIME) - Nanoseconds(CLOCK_MONOTONIC));
  }
  return best;
}

void Anchor(format::Clock& clock, const Reading& first) {
  clock.source =
      static_cast<std::uint32_t>(uses_counter ? format::ClockSource::kCycleCounter : format::ClockSource::kMonotonic);
  clock.realtime_minus_monotonic_ns.store(first.realtime_ns - first.monotonic_ns, std::memory_order_relaxed);
  if (!uses_counter) return;
  Reading second = Read();
  const std::int64_t passed = second.monotonic_ns - first.monotonic_ns;
  if (passed < kBaseline_ns) {
    const timespec rest{0, static_cast<long>(kBaseline_ns - passed)};
    nanosleep(&rest, nullptr);
    second = Read();
  }
  const double ns_per_tick =
      static_cast<double>(second.monotonic_ns - first.monotonic_ns) / static_cast<double>(second.ticks - first.ticks);
  clock.anchors[0] = {second.ticks, second.monotonic_ns, ns_per_tick};
  clock.anchored.store(1, std::memory_order_release);
}

}  // namespace ncclwatch::shim::clock
