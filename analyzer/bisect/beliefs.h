// What is believed of hypotheses, each with every noise, after the runs so far (noisy binary search: Burnashev &
// Zigangirov 1974, with the noise unknown). Pure.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/bisect/noise.h"

namespace ncclwatch::bisect {

class Beliefs {
 public:
  // `weights` of the hypotheses before any run.
  Beliefs(const std::vector<double>& weights, const NoiseBeliefs& noises);
  // `is_bad(hypothesis)`: what it says of the run that was made; not called for one that says nothing.
  void Learn(Outcome outcome, const std::function<bool(std::size_t)>& is_bad);

  std::vector<double> OfHypotheses() const;  // adds up to 1
  NoiseBeliefs OfNoises() const;             // likewise
  std::size_t Best() const;
  // Of some hypotheses together, under the noise with which that is least, of the noises that may be.
  // Those of less than `may_be` belief are not among them.
  double LeastOf(const std::vector<std::size_t>& hypotheses, double may_be = 0.02) const;

 private:
  std::vector<std::vector<double>> all_;  // by hypothesis, then by noise
};

}  // namespace ncclwatch::bisect
