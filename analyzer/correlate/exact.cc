#include "analyzer/correlate/exact.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <numeric>

namespace ncclwatch::correlate {

Interval ShareInterval(std::uint64_t cases, std::uint64_t of, double confidence) {
  using Binomial = boost::math::binomial_distribution<>;
  const auto k = static_cast<double>(cases), n = static_cast<double>(of);
  const double tail = (1 - confidence) / 2;
  if (of == 0) return {};
  return {Binomial::find_lower_bound_on_p(n, k, tail), Binomial::find_upper_bound_on_p(n, k, tail)};
}

double PoissonTail(std::uint64_t count, double mean) {
  if (count == 0) return 1;
  return mean <= 0 ? 0 : boost::math::gamma_p(static_cast<double>(count), mean);
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
