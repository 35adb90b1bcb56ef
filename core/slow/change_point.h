// Where a series of numbers rose for good. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ncclwatch::diagnosis {

// Where two levels explain it best, the second one the higher; 0: nowhere. Values beyond 1 and -1 count as those.
inline std::size_t RoseAt(const std::vector<double>& values) {
  std::vector<double> sums(1, 0);
  for (const double value : values) sums.push_back(sums.back() + std::clamp(value, -1.0, 1.0));
  const double all = static_cast<double>(values.size());
  std::size_t best = 0;
  double best_gain = 0;
  for (std::size_t at = 1; at < values.size(); ++at) {
    const double left = static_cast<double>(at), right = all - left;
    const double step = (sums.back() - sums[at]) / right - sums[at] / left;
    const double gain = step > 0 ? step * step * left * right / all : 0;
    if (gain > best_gain) best_gain = gain, best = at;
  }
  return best;
}

}  // namespace ncclwatch::diagnosis
