// Exact tails and intervals of small counts. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace ncclwatch::correlate {

// Clopper & Pearson 1934.
struct Interval {
  double low = 0, high = 1;
};
Interval ShareInterval(std::uint64_t cases, std::uint64_t of, double confidence);
// P(X >= count) where `mean` are expected, Poisson.
double PoissonTail(std::uint64_t count, double mean);
// Benjamini & Hochberg 1995, in the order of `p`.
std::vector<double> Adjusted(const std::vector<double>& p);

}  // namespace ncclwatch::correlate
