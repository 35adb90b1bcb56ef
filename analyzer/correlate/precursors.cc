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
constexpr double kDaysForRhythm = 10, kWithinDay_s = 3600;
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

// Failures at most a window after the latest event before them. An event at the same moment is no precursor. By events,
// of which most kinds have few: all kinds together take as long as one kind of all events.
std::size_t CountInside(const std::vector<double>& events, const std::vector<double>& failures, double window_s) {
  std::size_t count = 0;
  auto first = failures.begin();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const double event = events[i];
    const auto is_of_it = [&](double at) {
      return at - event <= window_s && (i + 1 == events.size() || at <= events[i + 1]);
    };
    first = std::upper_bound(first, failures.end(), event);
    if (first == failures.end()) break;
    if (is_of_it(*first))  // most have none
      count += static_cast<std::size_t>(std::partition_point(first, failures.end(), is_of_it) - first);
  }
  return count;
}

double LengthInside(const std::vector<double>& events, double window_s, double length) {
  double sum = 0;
  for (std::size_t i = 0; i < events.size(); ++i)
    sum += std::min({window_s, (i + 1 < events.size() ? events[i + 1] : length) - events[i], length - events[i]});
  return sum;
}

// Other histories of the same events by chance, one after another. They are drawn for all kinds of events together.
class Shuffle {
 public:
  Shuffle(double length, bool by_days) : length_(length), by_days_(by_days) {}

  void Next() {
    if (by_days_)
      DrawDays();
    else
      offset_ = std::uniform_real_distribution<>(0, length_)(random_);
  }
  std::vector<double> Of(const std::vector<double>& events) const {
    std::vector<double> moved;
    moved.reserve(events.size());
    for (const double at : events) moved.push_back(by_days_ ? ByDays(at) : Around(at + offset_));
    std::sort(moved.begin(), moved.end());
    return moved;
  }
  // Offsets that are nearer to one another than a window are much the same.
  double Different(double window_s) const { return by_days_ ? kShifts : std::min<double>(kShifts, length_ / window_s); }

 private:
  double Around(double at) const { return at < length_ ? at : at - length_; }
  // The days of each week in another order, each a little earlier or later.
  void DrawDays() {
    const auto days = static_cast<std::size_t>(std::ceil(length_ / kDay_s));
    order_.resize(days);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    constexpr std::size_t kWeek = 7;
    for (std::size_t week = 0; week < days; week += kWeek)
      std::shuffle(order_.begin() + static_cast<std::ptrdiff_t>(week),
                   order_.begin() + static_cast<std::ptrdiff_t>(std::min(week + kWeek, days)), random_);
    offsets_.resize(days);
    for (double& one : offsets_) one = std::uniform_real_distribution<>(-kWithinDay_s, kWithinDay_s)(random_);
  }
  double ByDays(double at) const {
    const auto day = std::min(order_.size() - 1, static_cast<std::size_t>(at / kDay_s));
    return at + (static_cast<double>(order_[day]) - static_cast<double>(day)) * kDay_s + offsets_[day];
  }

  const double length_;
  const bool by_days_;
  std::mt19937_64 random_{7};
  double offset_ = 0;
  std::vector<std::size_t> order_;
  std::vector<double> offsets_;
};

// A kind of events, and the pairs with it of which it is not known yet how probable they are by chance.
struct OpenKind {
  struct Pair {
    std::size_t index;  // in what was found
    std::size_t cases;
    const std::vector<double>* failures;
    int as_many = 0;
  };
  const std::vector<double>* events;
  std::vector<Pair> pairs;
};

void SetChances(std::vector<OpenKind> open, Shuffle shuffle, double window_s, std::vector<Precursor>* found) {
  for (int tried = 1; tried <= kShifts && !open.empty(); ++tried) {
    shuffle.Next();
    for (OpenKind& kind : open) {
      const std::vector<double> moved = shuffle.Of(*kind.events);
      std::erase_if(kind.pairs, [&](OpenKind::Pair& pair) {
        pair.as_many += CountInside(moved, *pair.failures, window_s) >= pair.cases;
        if (pair.as_many < kEnoughByChance) return false;
        (*found)[pair.index].p =
            static_cast<double>(pair.as_many) / tried;  // soon seen to be chance (Besag & Clifford 1991)
        return true;
      });
    }
    std::erase_if(open, [](const OpenKind& kind) { return kind.pairs.empty(); });
  }
  const double different = shuffle.Different(window_s);
  for (const OpenKind& kind : open)
    for (const OpenKind::Pair& pair : kind.pairs)
      (*found)[pair.index].p = (1 + pair.as_many / static_cast<double>(kShifts) * different) / (1 + different);
}

// Many pairs have the same few numbers, and an interval takes long to compute.
class ShareIntervals {
 public:
  const Interval& Of(std::size_t cases, std::size_t of) {
    const auto [found, made] = known_.try_emplace({cases, of});
    if (made) found->second = ShareInterval(cases, of, kConfidence);
    return found->second;
  }

 private:
  std::map<std::pair<std::size_t, std::size_t>, Interval> known_;
};

Precursor Measure(const std::string& event, const std::string& failure, const std::vector<double>& events,
                  const std::vector<double>& failures, double length, double window_s, ShareIntervals* intervals) {
  Precursor one{.event = event, .failure = failure};
  one.cases = CountInside(events, failures, window_s);
  one.of = failures.size();
  one.events = events.size();
  const double inside = LengthInside(events, window_s, length), outside = length - inside;
  if (inside <= 0 || outside <= 0 || one.of == 0) return one;
  const auto a = static_cast<double>(one.cases), b = static_cast<double>(one.of - one.cases);
  one.risk_ratio = b > 0 ? a / inside / (b / outside) : std::numeric_limits<double>::infinity();
  // Given all failures, those inside are binomial: its share's interval is that of the ratio of rates.
  const Interval share = intervals->Of(one.cases, one.of);
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
  std::vector<Precursor> found;
  std::vector<OpenKind> open;
  ShareIntervals intervals;
  for (const auto& [event, times] : events) {
    OpenKind kind{.events = &times, .pairs = {}};
    for (const auto& [failure, at] : failures) {
      Precursor& one = found.emplace_back(Measure(event, failure, times, at, active.length(), window_s, &intervals));
      if (one.events < kFewestEvents || one.of < kFewestFailures) continue;
      if (one.cases == 0)
        one.p = 1;  // every other history has as many
      else
        kind.pairs.push_back({.index = found.size() - 1, .cases = one.cases, .failures = &at});
    }
    if (!kind.pairs.empty()) open.push_back(std::move(kind));
  }
  SetChances(std::move(open), Shuffle(active.length(), by_days), window_s, &found);
  std::vector<double> p;
  for (const Precursor& one : found)
    if (one.p) p.push_back(*one.p);
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
