// How often a run's outcome is wrong, while that is being learned. Pure.
#pragma once

#include <array>
#include <cstddef>

namespace ncclwatch::bisect {

enum class Outcome { kGood, kBad, kUnknown };

// False alarms (bad though nothing is wrong) and misses (good though it is), with what is believed before any run.
struct Noise {
  double false_bad, false_good, belief;
};
inline constexpr std::array<Noise, 9> kNoises = {{{0.002, 0.002, 0.55},
                                                  {0.002, 0.05, 0.08},
                                                  {0.002, 0.1, 0.08},
                                                  {0.002, 0.2, 0.08},
                                                  {0.002, 0.4, 0.05},
                                                  {0.05, 0.05, 0.05},
                                                  {0.1, 0.1, 0.05},
                                                  {0.2, 0.2, 0.04},
                                                  {0.3, 0.3, 0.02}}};

// What is believed of each of them, so far.
using NoiseBeliefs = std::array<double, kNoises.size()>;
// `flaky`: the share of runs whose outcome is wrong, as far as the user knows; 0: not said.
inline NoiseBeliefs FirstNoiseBeliefs(double flaky) {
  NoiseBeliefs beliefs{};
  double sum = 0;
  for (std::size_t i = 0; i < beliefs.size(); ++i) {
    const bool may_be = flaky <= 0 || (kNoises[i].false_good >= flaky / 2 && kNoises[i].false_good <= 2 * flaky);
    sum += beliefs[i] = may_be ? kNoises[i].belief : 0;
  }
  if (sum <= 0) return FirstNoiseBeliefs(0);
  for (double& one : beliefs) one /= sum;
  return beliefs;
}

// Of this outcome, where the truth is bad or good.
inline double Likelihood(const Noise& noise, bool truth_is_bad, Outcome outcome) {
  if (outcome == Outcome::kUnknown) return 1;
  const double bad = truth_is_bad ? 1 - noise.false_good : noise.false_bad;
  return outcome == Outcome::kBad ? bad : 1 - bad;
}

}  // namespace ncclwatch::bisect
