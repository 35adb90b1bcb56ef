#include "watchdog/watch/base/limits.h"
#include "ncclwatch/nanoseconds.h"

#include <algorithm>

namespace ncclwatch::watch {
namespace {

// A wait four times as long as any before is news; a third of the way there ordinary jitter would be.
constexpr std::int64_t kOutOfHistory = 4;
constexpr std::int64_t kSuspectAtLeast_ns = 10 * kSecond;
constexpr std::int64_t kLikelyAtLeast_ns = 60 * kSecond;
// torch's own monitors end the job at 480 and 600 s: say it well before.
constexpr std::int64_t kAtMost_ns = 240 * kSecond;

}  // namespace

diagnosis::Limits LimitsFor(std::optional<double> timeout_s, std::int64_t longest_wait_ns) {
  diagnosis::Limits limits;
  if (timeout_s) {
    limits.suspect_after_ns = limits.likely_after_ns = static_cast<std::int64_t>(*timeout_s * 1e9);
    return limits;
  }
  const std::int64_t longest = std::clamp<std::int64_t>(longest_wait_ns, 0, kAtMost_ns);
  limits.suspect_after_ns = std::clamp(kOutOfHistory * longest, kSuspectAtLeast_ns, kAtMost_ns);
  limits.likely_after_ns =
      std::max(limits.suspect_after_ns, std::clamp(3 * limits.suspect_after_ns, kLikelyAtLeast_ns, kAtMost_ns));
  return limits;
}

}  // namespace ncclwatch::watch
