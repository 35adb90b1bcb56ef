// Medians, and how far values scatter about one: outliers do not move them. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace ncclwatch::diagnosis {

inline constexpr double kErrorOfMedian = 1.2533;  // of normal values, times sigma / sqrt(n): sqrt(pi / 2)

// The upper one of two middle values; 0 of none.
template <class Number>
Number Median(std::vector<Number> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The standard deviation of normal values that have this median absolute deviation.
inline double RobustSigma(std::vector<double> values, double median) {
  constexpr double kToSigma = 1.4826;
  for (double& value : values) value = std::abs(value - median);
  return kToSigma * Median(std::move(values));
}

}  // namespace ncclwatch::diagnosis
