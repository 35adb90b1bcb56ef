#include "analyzer/correlate/rhythm.h"

#include <absl/time/time.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <random>
#include <set>

#include "analyzer/correlate/exact.h"

namespace ncclwatch::correlate {
namespace {

constexpr std::size_t kFewest = 8, kMost = 300;  // failures that are looked at
constexpr int kSimulations = 199;
constexpr double kPi = 3.14159265358979323846, kSignificantRhythm = 0.05;

double Variation(const std::vector<double>& times) {
  double mean = (times.back() - times.front()) / static_cast<double>(times.size() - 1), sum = 0;
  for (std::size_t i = 1; i < times.size(); ++i)
    sum += (times[i] - times[i - 1] - mean) * (times[i] - times[i - 1] - mean);
  return mean > 0 ? std::sqrt(sum / static_cast<double>(times.size() - 1)) / mean : 0;
}

struct Phase {
  double strength = 0, period = 0;
};

// How well all times lie at one phase of the best period (Rayleigh's test, over many periods).
Phase StrongestPhase(const std::vector<double>& times) {
  const double span = times.back() - times.front(), shortest = span / static_cast<double>(times.size()) / 2;
  const double lowest = 3 / span, step = 0.2 / span;  // so small that no period between two frequencies is missed
  std::vector<std::complex<double>> phases, turns;
  for (const double at : times) {
    phases.push_back(std::polar(1.0, 2 * kPi * at * lowest));
    turns.push_back(std::polar(1.0, 2 * kPi * at * step));
  }
  Phase best;
  for (double frequency = lowest; frequency <= 1 / shortest; frequency += step) {
    double x = 0, y = 0;
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const double real = phases[i].real(), imaginary = phases[i].imag();
      x += real, y += imaginary;
      phases[i] = {real * turns[i].real() - imaginary * turns[i].imag(),
                   real * turns[i].imag() + imaginary * turns[i].real()};
    }
    const double strength = std::sqrt(x * x + y * y) / static_cast<double>(times.size());
    if (strength > best.strength) best = {strength, 1 / frequency};
  }
  return best;
}

std::vector<double> ByChance(std::size_t count, double span, std::mt19937_64* random) {
  std::uniform_real_distribution<> share(0, span);
  std::vector<double> times(count);
  for (double& one : times) one = share(*random);
  std::sort(times.begin(), times.end());
  return times;
}

struct Counted {
  std::string by, value;
  std::size_t failures;
  double expected;
};

template <typename Key>
void CountBy(const char* by, const History& history, Key key, std::vector<Counted>* all) {
  std::map<std::string, std::size_t> counts;
  std::size_t sum = 0;
  for (const Event& one : history.events)
    if (const std::string value = key(one); !value.empty()) counts.try_emplace(value, 0);
  for (const Event& one : history.failures)
    if (const std::string value = key(one); !value.empty()) ++counts[value], ++sum;
  constexpr std::size_t kFewestValues = 3;
  if (counts.size() < kFewestValues || sum < kFewest) return;
  for (const auto& [value, count] : counts)
    if (count > 0) all->push_back({by, value, count, static_cast<double>(sum) / static_cast<double>(counts.size())});
}

std::string Form(double at, const char* form) {
  return absl::FormatTime(form, absl::FromUnixSeconds(static_cast<std::int64_t>(at)), absl::UTCTimeZone());
}

// All days and hours from the first event to the last, with failures or not.
void CountByTime(const History& history, std::vector<Counted>* all) {
  if (history.failures.size() < kFewest) return;
  double first = history.failures.front().at, last = history.failures.back().at;
  if (!history.events.empty())
    first = std::min(first, history.events.front().at), last = std::max(last, history.events.back().at);
  std::map<std::string, std::size_t> days, hours;
  for (const Event& one : history.failures) ++days[Form(one.at, "%Y-%m-%d")], ++hours[Form(one.at, "%H:00 UTC")];
  const auto sum = static_cast<double>(history.failures.size());
  // Whole days from the first event on, and the last one if there is a failure in it.
  const double whole = std::floor((last - first) / kDay_s) + 1, first_day = std::floor(first / kDay_s);
  const double all_days = whole + (std::floor(history.failures.back().at / kDay_s) >= first_day + whole ? 1 : 0);
  for (const auto& [value, count] : days)
    if (all_days > 2) all->push_back({"time", value, count, sum / all_days});
  constexpr double kHours = 24, kDaysForHours = 3;
  for (const auto& [value, count] : hours)
    if (last - first >= kDaysForHours * kDay_s) all->push_back({"time", value, count, sum / kHours});
}

}  // namespace

Rhythm RhythmOf(const std::vector<Event>& failures) {
  Rhythm rhythm;
  std::vector<double> times;
  for (std::size_t i = failures.size() > kMost ? failures.size() - kMost : 0; i < failures.size(); ++i)
    times.push_back(failures[i].at - failures.front().at);
  if (times.size() < kFewest || times.back() <= times.front()) return rhythm;
  const double first = times.front(), span = times.back() - first;
  for (double& one : times) one -= first;
  std::vector<double> gaps;
  for (std::size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  std::nth_element(gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2), gaps.end());
  rhythm.interval_s = gaps[gaps.size() / 2];
  const double variation = Variation(times);
  const Phase phase = StrongestPhase(times);
  std::mt19937_64 random(11);
  int as_strong = 0, as_varied = 0;
  for (int i = 0; i < kSimulations; ++i) {
    const std::vector<double> chance = ByChance(times.size(), span, &random);
    as_strong += StrongestPhase(chance).strength >= phase.strength;
    as_varied += Variation(chance) >= variation;
  }
  const double share = 1.0 / (kSimulations + 1);
  rhythm.pattern = "irregular";
  if ((1 + as_varied) * share <= kSignificantRhythm / 2)
    rhythm.pattern = "clustered";
  else if ((1 + as_strong) * share <= kSignificantRhythm / 2)
    rhythm.pattern = "periodic", rhythm.interval_s = phase.period;
  return rhythm;
}

std::vector<Cluster> FindClusters(const History& history) {
  std::vector<Counted> counted;
  CountBy(
      "host", history, [](const Event& one) { return one.host; }, &counted);
  CountBy(
      "job", history, [](const Event& one) { return one.job; }, &counted);
  CountByTime(history, &counted);
  std::vector<double> p;
  for (const Counted& one : counted) p.push_back(PoissonTail(one.failures, one.expected));
  const std::vector<double> adjusted = Adjusted(p);
  std::vector<Cluster> clusters;
  for (std::size_t i = 0; i < counted.size(); ++i)
    if (adjusted[i] <= kSignificantRhythm)
      clusters.push_back({counted[i].by, counted[i].value, counted[i].failures, counted[i].expected, adjusted[i]});
  std::stable_sort(clusters.begin(), clusters.end(),
                   [](const Cluster& a, const Cluster& b) { return a.p_adjusted < b.p_adjusted; });
  return clusters;
}

}  // namespace ncclwatch::correlate
