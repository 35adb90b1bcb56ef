#include "core/steps/bursts.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kMostCalls = 1024;  // that are looked at
constexpr std::size_t kFewestSteps = 8;
constexpr double kRegular = 0.75;  // of the steps
// The longest pause is longer than any other one of the step, of many calls longer than all together: every tenth step
// may write a checkpoint.
constexpr std::int64_t kLonger_percent = 150;
constexpr std::uint64_t kFewCalls = 8, kMostBurst = 64;

struct Pause {
  std::uint64_t after = 0;  // number of the call
  std::int64_t ns = 0;
};

std::int64_t MiddleOf(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<Burst> BurstOf(const std::vector<Pause>& pauses, std::uint64_t calls) {
  std::vector<std::vector<std::int64_t>> by_place(calls);
  for (const Pause& pause : pauses) by_place[pause.after % calls].push_back(pause.ns);
  std::vector<std::int64_t> usual;
  for (std::vector<std::int64_t>& place : by_place) {
    if (place.size() < kFewestSteps) return std::nullopt;
    usual.push_back(MiddleOf(std::move(place)));
  }
  const auto longest = std::max_element(usual.begin(), usual.end());
  const auto last = static_cast<std::uint64_t>(longest - usual.begin());
  const std::int64_t long_ns = *longest;
  *longest = 0;
  const std::int64_t others_ns = calls <= kFewCalls ? *std::max_element(usual.begin(), usual.end())
                                                    : std::accumulate(usual.begin(), usual.end(), std::int64_t{0});
  if (100 * long_ns < kLonger_percent * others_ns) return std::nullopt;
  std::size_t regular = 0, steps = 0;
  for (std::size_t i = 0; i + calls <= pauses.size(); ++i) {
    if (pauses[i].after % calls != (last + 1) % calls || pauses[i + calls - 1].after % calls != last) continue;
    const auto begin = pauses.begin() + static_cast<std::ptrdiff_t>(i),
               end = begin + static_cast<std::ptrdiff_t>(calls);
    ++steps;
    regular += std::max_element(begin, end, [](auto& a, auto& b) { return a.ns < b.ns; }) == end - 1 ? 1 : 0;
  }
  if (static_cast<double>(regular) < kRegular * static_cast<double>(steps)) return std::nullopt;
  return Burst{calls, (last + 1) % calls};
}

}  // namespace

Burst FindBurst(const std::vector<CallTime>& calls) {
  std::vector<Pause> pauses;
  for (std::size_t i = calls.size() - std::min(calls.size(), kMostCalls); i + 1 < calls.size(); ++i)
    if (calls[i + 1].number == calls[i].number + 1)
      pauses.push_back({calls[i].number, calls[i + 1].at_ns - calls[i].at_ns});
  for (std::uint64_t count = 2; count <= kMostBurst && count * kFewestSteps <= pauses.size(); ++count)
    if (const auto burst = BurstOf(pauses, count)) return *burst;
  return {};
}

std::uint64_t CallsOfABurst(const std::vector<std::int64_t>& times_ns) {
  constexpr std::int64_t kManyTimes = 8;
  std::vector<std::int64_t> pauses;
  for (std::size_t i = 1; i < times_ns.size(); ++i) pauses.push_back(times_ns[i] - times_ns[i - 1]);
  if (pauses.empty()) return 0;
  const std::int64_t long_ns = kManyTimes * std::max<std::int64_t>(1, MiddleOf(pauses));
  std::map<std::uint64_t, std::size_t> bursts;  // how many have so many calls
  std::uint64_t calls = 1;
  std::size_t all = 0;
  for (const std::int64_t pause : pauses) {
    if (pause < long_ns) {
      ++calls;
      continue;
    }
    ++bursts[std::exchange(calls, 1)];
    ++all;
  }
  for (const auto& [length, count] : bursts)
    if (length > 1 && all >= kFewestSteps && static_cast<double>(count) >= kRegular * static_cast<double>(all))
      return length;
  return 0;
}

}  // namespace ncclwatch::diagnosis
