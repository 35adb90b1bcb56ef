#include "analyzer/correlate/precursors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "analyzer/correlate/exact.h"

namespace ncclwatch::correlate {
namespace {

constexpr std::size_t kFewestFailures = 5, kFewestEvents = 5, kFewestCases = 3;
constexpr double kSignificant = 0.03, kConfidence = 0.95;  // 0.05 was measured to err in 6 % of histories
constexpr int kShifts = 1999, kEnoughByChance = 25;
constexpr double kDay_s = 86400, kDaysForRhythm = 10, kWithinDay_s = 3600;
// In a longer silence of everything nothing was running: that time does not count.
constexpr double kSilence_s = 6 * 3600;

// Time without the silences, from 0 on.
class ActiveTime {
 public:
  explicit ActiveTime(std::vector<double> times, double window_s) {
    std::sort(times.begin(), times.end());
    const double most = std::max(kSilence_s, 2 * window_s);
    double active = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (i > 0) active += std::min(times[i] - times[i - 1], most);
      if (i == 0 || times[i] > times[i - 1]) marks_.push_back({times[i], active});
    }
    length_ = active + window_s;
  }
  double Of(double time) const {
    const auto after = std::upper_bound(marks_.begin(), marks_.end(), time,
                                        [](double value, const Mark& mark) { return value < mark.time; });
    return after == marks_.begin() ? 0 : std::prev(after)->active;
  }
  double length() const { return length_; }
  bool has_silence() const {
    return !marks_.empty() && marks_.back().time - marks_.front().time > marks_.back().active + 1;
  }

 private:
  struct Mark {
    double time, active;
  };
  std::vector<Mark> marks_;
  double length_ = 0;
};

std::size_t CountInside(const std::vector<double>& events, const std::vector<double>& failures, double window_s) {
  std::size_t count = 0;
  for (const double at : failures) {
    const auto after =
        std::lower_bound(events.begin(), events.end(), at);  // an event at the same moment is no precursor
    count += after != events.begin() && at - *std::prev(after) <= window_s;
  }
  return count;
}

double LengthInside(const std::vector<double>& events, double window_s, double length) {
  double sum = 0;
  for (std::size_t i = 0; i < events.size(); ++i)
    sum += std::min({window_s, (i + 1 < events.size() ? events[i + 1] : length) - events[i], length - events[i]});
  return sum;
}

// Another history of the same events, by chance.
class Shuffle {
 public:
  Shuffle(double length, bool by_days) : length_(length), by_days_(by_days) {}

  std::vector<double> Of(const std::vector<double>& events, std::mt19937_64* random) const {
    std::vector<double> moved = by_days_ ? ByDays(events, random) : Shifted(events, random);
    std::sort(moved.begin(), moved.end());
    return moved;
  }
  // Offsets that are nearer to one another than a window are much the same.
  double Different(double window_s) const { return by_days_ ? kShifts : std::min<double>(kShifts, length_ / window_s); }

 private:
  std::vector<double> Shifted(const std::vector<double>& events, std::mt19937_64* random) const {
    const double offset = std::uniform_real_distribution<>(0, length_)(*random);
    std::vector<double> moved;
    for (const double at : events) moved.push_back(std::fmod(at + offset, length_));
    return moved;
  }
  // The days of each week in another order, each a little earlier or later.
  std::vector<double> ByDays(const std::vector<double>& events, std::mt19937_64* random) const {
    const auto days = static_cast<std::size_t>(std::ceil(length_ / kDay_s));
    std::vector<std::size_t> order(days);
    std::iota(order.begin(), order.end(), std::size_t{0});
    constexpr std::size_t kWeek = 7;
    for (std::size_t week = 0; week < days; week += kWeek)
      std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(week),
                   order.begin() + static_cast<std::ptrdiff_t>(std::min(week + kWeek, days)), *random);
    std::vector<double> offsets(days);
    for (double& one : offsets) one = std::uniform_real_distribution<>(-kWithinDay_s, kWithinDay_s)(*random);
    std::vector<double> moved;
    for (const double at : events) {
      const auto day = std::min(days - 1, static_cast<std::size_t>(at / kDay_s));
      moved.push_back(at + (static_cast<double>(order[day]) - static_cast<double>(day)) * kDay_s + offsets[day]);
    }
    return moved;
  }

  const double length_;
  const bool by_days_;
};

double PValue(const Shuffle& shuffle, const std::vector<double>& events, const std::vector<double>& failures,
              double window_s) {
  const std::size_t observed = CountInside(events, failures, window_s);
  std::mt19937_64 random(7);
  int as_many = 0, tried = 0;
  // What is chance is soon seen to be (Besag & Clifford 1991).
  while (tried < kShifts && as_many < kEnoughByChance) {
    ++tried;
    as_many += CountInside(shuffle.Of(events, &random), failures, window_s) >= observed;
  }
  if (as_many == kEnoughByChance) return static_cast<double>(as_many) / tried;
  const double share = as_many / static_cast<double>(kShifts), different = shuffle.Different(window_s);
  return (1 + share * different) / (1 + different);
}

Precursor Measure(const std::string& event, const std::string& failure, const std::vector<double>& events,
                  const std::vector<double>& failures, double length, double window_s) {
  Precursor one{.event = event, .failure = failure};
  one.cases = CountInside(events, failures, window_s);
  one.of = failures.size();
  one.events = events.size();
  const double inside = LengthInside(events, window_s, length), outside = length - inside;
  if (inside <= 0 || outside <= 0 || one.of == 0) return one;
  const auto a = static_cast<double>(one.cases), b = static_cast<double>(one.of - one.cases);
  one.risk_ratio = b > 0 ? a / inside / (b / outside) : std::numeric_limits<double>::infinity();
  // Given all failures, those inside are binomial: its share's interval is that of the ratio of rates.
  const Interval share = ShareInterval(one.cases, one.of, kConfidence);
  const auto ratio = [&](double p) {
    return p < 1 ? p / (1 - p) * outside / inside : std::numeric_limits<double>::infinity();
  };
  one.low = ratio(share.low), one.high = ratio(share.high);
  return one;
}

}  // namespace

std::vector<Precursor> FindPrecursors(const History& history, double window_s) {
  std::vector<double> all;
  for (const auto* const some : {&history.events, &history.failures})
    for (const Event& one : *some) all.push_back(one.at);
  if (all.empty()) return {};
  const ActiveTime active(all, window_s);
  std::map<std::string, std::vector<double>> events, failures;
  for (const Event& one : history.events) events[one.type].push_back(active.Of(one.at));
  for (const Event& one : history.failures) {
    failures[one.category].push_back(active.Of(one.at));
    failures["any"].push_back(active.Of(one.at));
  }
  const bool by_days = active.length() >= kDaysForRhythm * kDay_s && !active.has_silence();
  const Shuffle shuffle(active.length(), by_days);
  std::vector<Precursor> found;
  std::vector<double> p;
  for (const auto& [event, times] : events)
    for (const auto& [failure, at] : failures) {
      Precursor& one = found.emplace_back(Measure(event, failure, times, at, active.length(), window_s));
      if (one.events < kFewestEvents || one.of < kFewestFailures) continue;
      one.p = PValue(shuffle, times, at, window_s);
      p.push_back(*one.p);
    }
  const std::vector<double> adjusted = Adjusted(p);
  std::size_t next = 0;
  for (Precursor& one : found) {
    if (!one.p) continue;
    one.p_adjusted = adjusted[next++];
    one.significant = *one.p_adjusted <= kSignificant && one.cases >= kFewestCases && one.low > 1;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Precursor& a, const Precursor& b) { return a.p.value_or(2) < b.p.value_or(2); });
  return found;
}

}  // namespace ncclwatch::correlate
