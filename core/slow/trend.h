// Slopes, trends and kinks of series. Pure.
#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {

// That normal values are as far above zero as z standard deviations, by chance.
inline double ChanceOf(double z) { return std::erfc(z / std::sqrt(2.0)) / 2; }

// The median of the slopes between all pairs, for each unit of x: outliers do not move it. For short series.
inline double TheilSen(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = i + 1; j < x.size(); ++j)
      if (x[j] > x[i]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
  return Median(std::move(slopes));
}

// Mann and Kendall's test, with their correction for ties: standard deviations by which more pairs rise than fall.
inline double MannKendall(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double rises = 0;
  std::map<double, double> ties;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ++ties[values[i]];
    for (std::size_t j = i + 1; j < values.size(); ++j) rises += (values[j] > values[i]) - (values[j] < values[i]);
  }
  double variance = n * (n - 1) * (2 * n + 5);
  for (const auto& [value, t] : ties) variance -= t * (t - 1) * (2 * t + 5);
  variance /= 18;
  if (variance <= 0 || rises == 0) return 0;
  return (rises - (rises > 0 ? 1 : -1)) / std::sqrt(variance);
}

// A straight line through values at x = 0, 1, 2, ..., by least squares.
struct Line {
  double slope = 0;
  double error = 0;  // standard error of the slope
};
inline Line FitLine(const std::vector<double>& y) {
  const auto n = static_cast<double>(y.size());
  double mean = 0, above = 0, squares = 0;
  for (const double value : y) mean += value / n;
  const double middle = (n - 1) / 2, spread = n * (n * n - 1) / 12;
  for (std::size_t i = 0; i < y.size(); ++i) above += (static_cast<double>(i) - middle) * (y[i] - mean);
  if (n < 3) return {};
  Line line{above / spread, 0};
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double rest = y[i] - mean - line.slope * (static_cast<double>(i) - middle);
    squares += rest * rest;
  }
  line.error = std::sqrt(squares / (n - 2) / spread);
  return line;
}

// Where a level turns into a slope, by least squares: y = level + slope * max(0, i - kink).
struct Kink {
  std::size_t at = 0;
  double slope = 0;  // behind it, for each value
};
inline Kink FindKink(const std::vector<double>& y) {
  const std::size_t n = y.size();
  const auto all = static_cast<double>(n);
  double sum_y = 0;
  for (const double value : y) sum_y += value;
  Kink best;
  double best_gain = 0, tail_y = 0, sum_h = 0, sum_hh = 0, sum_hy = 0;
  // With each step of the kink to the left all distances behind it grow by one.
  for (std::size_t at = n; at-- > 0;) {
    const auto behind = static_cast<double>(n - 1 - at);
    sum_hh += 2 * sum_h + behind;
    sum_h += behind;
    sum_hy += tail_y;
    tail_y += y[at];
    const double spread = sum_hh - sum_h * sum_h / all, joint = sum_hy - sum_h * sum_y / all;
    if (spread <= 0) continue;
    const double gain = joint * joint / spread;
    if (gain > best_gain) best_gain = gain, best = {at, joint / spread};
  }
  return best;
}

// `count` medians of pieces of equal length (the first ones may be one longer); fewer values: as they are.
inline std::vector<double> PieceMedians(const std::vector<double>& values, std::size_t count) {
  if (values.size() <= count) return values;
  std::vector<double> medians;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = [&](std::size_t piece) {
      return values.begin() + static_cast<std::ptrdiff_t>(piece * values.size() / count);
    };
    medians.push_back(Median(std::vector<double>(at(i), at(i + 1))));
  }
  return medians;
}

}  // namespace ncclwatch::diagnosis
