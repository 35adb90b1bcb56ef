// How much a metric has changed between two runs, and how sure that is. Pure, and the same for the same numbers.
//
// Steps resemble those before them: blocks of neighbours are drawn with replacement, not single values (circular block
// bootstrap, Politis & Romano 1992). The length of blocks follows from the autocorrelation (Politis & White 2004, with
// the correction of Patton, Politis & White 2009). Runs differ too: where both sides have two trials or more, the
// trials' medians are what is compared (Welch's t).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncclwatch::compare {

using Samples = std::vector<double>;  // of one trial, in the order of time

// Of values that are independent 1.
double BlockLength(const Samples& samples);
// Standard error of the logarithm of the median, by resampling blocks. All samples are positive.
double ErrorOfLogMedian(const Samples& samples, std::uint64_t seed);
double MedianOf(Samples samples);  // of two middle values their mean

struct Change {
  double ratio = 0;             // of medians, after to before, minus 1
  double low = 0, high = 0;     // the interval, likewise
  bool between_trials = false;  // the trials of both sides tell how much runs differ
  bool measured = false;        // else too few values for an interval
};
// `confidence`: of the interval, 0.99. Trials with fewer than two values count by their mean alone.
Change ChangeOf(const std::vector<Samples>& before, const std::vector<Samples>& after, double confidence);

}  // namespace ncclwatch::compare
