#include "analyzer/bisect/beliefs.h"

#include <algorithm>
#include <numeric>

namespace ncclwatch::bisect {

Beliefs::Beliefs(const std::vector<double>& weights, const NoiseBeliefs& noises) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (const double weight : weights) {
    std::vector<double>& row = all_.emplace_back();
    for (const double noise : noises) row.push_back(weight / sum * noise);
  }
}

void Beliefs::Learn(Outcome outcome, const std::function<bool(std::size_t)>& is_bad) {
  double sum = 0;
  for (std::size_t hypothesis = 0; hypothesis < all_.size(); ++hypothesis) {
    const bool bad = is_bad(hypothesis);
    for (std::size_t noise = 0; noise < kNoises.size(); ++noise)
      sum += all_[hypothesis][noise] *= Likelihood(kNoises[noise], bad, outcome);
  }
  for (auto& row : all_)
    for (double& one : row) one /= sum;
}

std::vector<double> Beliefs::OfHypotheses() const {
  std::vector<double> sums;
  for (const auto& row : all_) sums.push_back(std::accumulate(row.begin(), row.end(), 0.0));
  return sums;
}

NoiseBeliefs Beliefs::OfNoises() const {
  NoiseBeliefs sums{};
  for (const auto& row : all_)
    for (std::size_t noise = 0; noise < sums.size(); ++noise) sums[noise] += row[noise];
  return sums;
}

std::size_t Beliefs::Best() const {
  const std::vector<double> beliefs = OfHypotheses();
  return static_cast<std::size_t>(std::max_element(beliefs.begin(), beliefs.end()) - beliefs.begin());
}

// With a belief that is an average over noises, runs that are often wrong would seem as sure as others.
double Beliefs::LeastOf(const std::vector<std::size_t>& hypotheses, double may_be) const {
  const NoiseBeliefs noises = OfNoises();
  double least = 1;
  for (std::size_t noise = 0; noise < noises.size(); ++noise) {
    if (noises[noise] < may_be) continue;
    double sum = 0;
    for (const std::size_t hypothesis : hypotheses) sum += all_[hypothesis][noise];
    least = std::min(least, sum / noises[noise]);
  }
  return least;
}

}  // namespace ncclwatch::bisect
