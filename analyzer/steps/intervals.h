// Stretches of time, joined, taken from one another, and measured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncclwatch::analyzer {

struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t length() const { return end - begin; }
};

using Intervals = std::vector<Interval>;

// In order, without those that touch. All other functions take and give such.
inline Intervals Joined(Intervals all) {
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::size_t kept = 0;
  for (const Interval& one : all) {
    if (one.length() <= 0) continue;
    if (kept > 0 && one.begin <= all[kept - 1].end)
      all[kept - 1].end = std::max(all[kept - 1].end, one.end);
    else
      all[kept++] = one;
  }
  all.resize(kept);
  return all;
}

inline Intervals Union(Intervals a, const Intervals& b) {
  a.insert(a.end(), b.begin(), b.end());
  return Joined(std::move(a));
}

// What is in `a` and not in `b`.
inline Intervals Without(const Intervals& a, const Intervals& b) {
  Intervals rest;
  auto taken = b.begin();
  for (Interval one : a) {
    while (taken != b.end() && taken->end <= one.begin) ++taken;
    for (auto at = taken; at != b.end() && at->begin < one.end; ++at) {
      if (at->begin > one.begin) rest.push_back({one.begin, at->begin});
      one.begin = std::max(one.begin, at->end);
    }
    if (one.length() > 0) rest.push_back(one);
  }
  return rest;
}

inline std::int64_t Length(const Intervals& all, Interval span) {
  auto at = std::partition_point(all.begin(), all.end(), [&](const Interval& one) { return one.end <= span.begin; });
  std::int64_t sum = 0;
  for (; at != all.end() && at->begin < span.end; ++at)
    sum += std::min(at->end, span.end) - std::max(at->begin, span.begin);
  return sum;
}

}  // namespace ncclwatch::analyzer
