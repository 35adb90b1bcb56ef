#include "analyzer/compare/bootstrap.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace ncclwatch::compare {
namespace {

constexpr int kResamples = 400;  // a standard error is then right to 4 %
constexpr std::size_t kFewest = 5;
constexpr std::size_t kMost = 20000;  // samples of a trial; more are thinned by medians of neighbours

double MeanOf(const Samples& samples) {
  double sum = 0;
  for (const double value : samples) sum += value;
  return sum / static_cast<double>(samples.size());
}

std::vector<double> Autocovariances(const Samples& samples, std::size_t most) {
  const double mean = MeanOf(samples);
  std::vector<double> all;
  for (std::size_t lag = 0; lag <= most; ++lag) {
    double sum = 0;
    for (std::size_t i = lag; i < samples.size(); ++i) sum += (samples[i] - mean) * (samples[i - lag] - mean);
    all.push_back(sum / static_cast<double>(samples.size()));
  }
  return all;
}

// Trapezoid: one up to a half, then down to nothing.
double FlatTop(double share) { return share <= 0.5 ? 1 : std::max(0.0, 2 * (1 - share)); }

// What an outlier tells of its neighbours is little: values count up to three robust deviations.
Samples Winsorized(Samples samples) {
  const double median = MedianOf(samples);
  Samples off;
  for (const double value : samples) off.push_back(std::abs(value - median));
  const double most = 3 * 1.4826 * MedianOf(off);
  if (most > 0)
    for (double& value : samples) value = std::clamp(value, median - most, median + most);
  return samples;
}

Samples Thinned(const Samples& samples) {
  if (samples.size() <= kMost) return samples;
  const std::size_t width = (samples.size() + kMost - 1) / kMost;
  Samples thinned;
  for (std::size_t at = 0; at < samples.size(); at += width)
    thinned.push_back(MedianOf({samples.begin() + static_cast<std::ptrdiff_t>(at),
                                samples.begin() + static_cast<std::ptrdiff_t>(std::min(at + width, samples.size()))}));
  return thinned;
}

// The logarithm of the median over all trials, its variance, and for how many degrees of freedom that is known.
struct Sample {
  double level = 0, variance = 0, freedom = 0;
  bool known = false;
};

Sample BetweenTrials(const std::vector<Samples>& trials) {
  Sample side;
  std::vector<double> levels;
  for (const Samples& trial : trials) levels.push_back(std::log(MedianOf(trial)));
  side.level = MeanOf(levels);
  for (const double level : levels) side.variance += (level - side.level) * (level - side.level);
  const auto count = static_cast<double>(levels.size());
  side.variance /= (count - 1) * count;
  side.freedom = count - 1;
  side.known = true;
  return side;
}

// Of neighbours, without the bias of a short series (Marriott & Pope 1954); of logarithms, as far as they are usual.
double NeighbourCorrelation(const Samples& samples) {
  const std::vector<double> covariances = Autocovariances(Winsorized(samples), 1);
  const auto count = static_cast<double>(samples.size());
  if (covariances[0] <= 0) return 0;
  const double raw = covariances[1] / covariances[0];
  return std::clamp(raw + (1 + 3 * raw) / count, 0.0, 0.98);
}

// As many values tell as much as `samples.size()` of which each resembles the one before.
double EffectiveCount(const Samples& samples) {
  const double correlation = NeighbourCorrelation(samples);
  return static_cast<double>(samples.size()) * (1 - correlation) / (1 + correlation);
}

// Of a process that remembers its last value; blocks may be too short to show that.
double ErrorByNeighbours(const Samples& samples) {
  const double median = MedianOf(samples);
  Samples off;
  for (const double value : samples) off.push_back(std::abs(std::log(value / median)));
  constexpr double kToSigma = 1.4826, kErrorOfMedian = 1.2533;
  return kErrorOfMedian * kToSigma * MedianOf(off) / std::sqrt(EffectiveCount(samples));
}

Sample WithinTrials(const std::vector<Samples>& trials, std::uint64_t seed) {
  Sample side;
  for (const Samples& trial : trials) {
    side.level += std::log(MedianOf(trial)) / static_cast<double>(trials.size());
    if (trial.size() < kFewest) return side;
    const double error = std::max(ErrorOfLogMedian(trial, seed++), ErrorByNeighbours(trial)),
                 share = 1 / static_cast<double>(trials.size());
    side.variance += error * error * share * share;
    side.freedom += std::max(1.0, EffectiveCount(trial) - 1);
  }
  side.known = true;
  return side;
}

}  // namespace

double MedianOf(Samples samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

double BlockLength(const Samples& samples) {
  const auto count = static_cast<double>(samples.size());
  if (samples.size() < 10) return 1;
  const auto in_a_row = static_cast<std::size_t>(std::max(5.0, std::sqrt(std::log10(count))));
  const auto most_lag = std::min(samples.size() / 4, static_cast<std::size_t>(std::ceil(std::sqrt(count))) + in_a_row);
  const std::vector<double> covariances =
      Autocovariances(Winsorized(samples), 2 * most_lag < samples.size() ? 2 * most_lag : most_lag);
  if (covariances[0] <= 0) return 1;
  // The lag after which `in_a_row` correlations may be chance.
  const double chance = 2 * std::sqrt(std::log10(count) / count);
  std::size_t lag = most_lag;
  for (std::size_t start = 1, run = 0, at = 1; at <= most_lag; ++at) {
    if (std::abs(covariances[at] / covariances[0]) >= chance)
      run = 0, start = at + 1;
    else if (++run == in_a_row) {
      lag = start - 1;
      break;
    }
  }
  const std::size_t window = std::min(std::max<std::size_t>(1, 2 * lag), covariances.size() - 1);
  double spectrum = covariances[0], slope = 0;
  for (std::size_t at = 1; at <= window; ++at) {
    const double weight = FlatTop(static_cast<double>(at) / static_cast<double>(window));
    spectrum += 2 * weight * covariances[at];
    slope += 2 * weight * static_cast<double>(at) * covariances[at];
  }
  if (spectrum <= 0) return std::sqrt(count);
  const double length = std::cbrt(2 * slope * slope / (4.0 / 3 * spectrum * spectrum)) * std::cbrt(count);
  return std::clamp(std::ceil(length), 1.0, std::max(1.0, std::min(3 * std::sqrt(count), count / 3)));
}

double ErrorOfLogMedian(const Samples& all, std::uint64_t seed) {
  const Samples samples = Thinned(all);
  const auto length = static_cast<std::size_t>(BlockLength(samples));
  std::mt19937_64 random(seed);
  std::vector<double> levels;
  Samples drawn(samples.size());
  for (int i = 0; i < kResamples; ++i) {
    for (std::size_t at = 0; at < drawn.size();) {
      std::size_t from = random() % samples.size();
      for (std::size_t k = 0; k < length && at < drawn.size();
           ++k, ++at, from = from + 1 == samples.size() ? 0 : from + 1)
        drawn[at] = samples[from];
    }
    levels.push_back(std::log(MedianOf(drawn)));
  }
  const double mean = MeanOf(levels);
  double sum = 0;
  for (const double level : levels) sum += (level - mean) * (level - mean);
  return std::sqrt(sum / (kResamples - 1));
}

Change ChangeOf(const std::vector<Samples>& before, const std::vector<Samples>& after, double confidence) {
  Change change;
  change.between_trials = before.size() > 1 && after.size() > 1;
  const Sample a = change.between_trials ? BetweenTrials(before) : WithinTrials(before, 1),
               b = change.between_trials ? BetweenTrials(after) : WithinTrials(after, 1000);
  change.ratio = std::expm1(b.level - a.level);
  change.measured = a.known && b.known;
  if (!change.measured) return change;
  const double variance = a.variance + b.variance;
  // Welch and Satterthwaite.
  const double freedom = variance > 0 ? variance * variance /
                                            (a.variance * a.variance / std::max(1.0, a.freedom) +
                                             b.variance * b.variance / std::max(1.0, b.freedom))
                                      : 1e6;
  const double quantile = boost::math::quantile(boost::math::students_t(freedom), (1 + confidence) / 2);
  const double half = quantile * std::sqrt(variance);
  change.low = std::expm1(b.level - a.level - half);
  change.high = std::expm1(b.level - a.level + half);
  return change;
}

}  // namespace ncclwatch::compare
