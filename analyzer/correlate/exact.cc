#include "analyzer/correlate/exact.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ncclwatch::correlate {
namespace {

// Lentz's method.
double Fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kNear = 1e-12;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double value = d;
  for (int m = 1; m < 10000; ++m) {
    const double n = m;
    for (const double step : {n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n)),
                              -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))}) {
      d = 1 + step * d;
      d = 1 / (std::abs(d) < kTiny ? kTiny : d);
      c = 1 + step / c;
      if (std::abs(c) < kTiny) c = kTiny;
      value *= d * c;
      if (step < 0 && std::abs(d * c - 1) < kNear) return value;
    }
  }
  return value;
}

double BetaQuantile(double a, double b, double share) {
  double low = 0, high = 1;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (BetaBelow(a, b, middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

double BetaBelow(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * Fraction(a, b, x) / a : 1 - front * Fraction(b, a, 1 - x) / b;
}

Interval ShareInterval(std::uint64_t cases, std::uint64_t of, double confidence) {
  const auto k = static_cast<double>(cases), n = static_cast<double>(of);
  const double tail = (1 - confidence) / 2;
  return {cases == 0 ? 0 : BetaQuantile(k, n - k + 1, tail), cases == of ? 1 : BetaQuantile(k + 1, n - k, 1 - tail)};
}

double PoissonTail(std::uint64_t count, double mean) {
  if (count == 0) return 1;
  double term = std::exp(-mean), below = 0;
  for (std::uint64_t k = 0; k < count; ++k) {
    below += term;
    term *= mean / static_cast<double>(k + 1);
  }
  // Where nearly all lies below, the sum of what is above is more exact.
  if (below < 0.999999) return std::max(0.0, 1 - below);
  double above = 0;
  for (std::uint64_t k = count; term > above * 1e-16 && term > 0; ++k) {
    above += term;
    term *= mean / static_cast<double>(k + 1);
  }
  return above;
}

std::vector<double> Adjusted(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  std::vector<double> adjusted(p.size());
  double least = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto rank = static_cast<double>(p.size() - i);
    least = std::min(least, p[order[i]] * static_cast<double>(p.size()) / rank);
    adjusted[order[i]] = least;
  }
  return adjusted;
}

}  // namespace ncclwatch::correlate
