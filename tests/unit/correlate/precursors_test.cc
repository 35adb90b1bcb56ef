// FindPrecursors against the definition of its numbers, computed pair by pair, on small histories.
#include "analyzer/correlate/precursors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace ncclwatch::correlate {
namespace {

constexpr double kDay_s = 86400, kHour_s = 3600;

using Times = std::vector<double>;

// Whether a failure comes at most a window after any event.
std::size_t DirectCount(const Times& events, const Times& failures, double window_s) {
  return static_cast<std::size_t>(std::count_if(failures.begin(), failures.end(), [&](double at) {
    return std::any_of(events.begin(), events.end(), [&](double one) { return one < at && at - one <= window_s; });
  }));
}

Times DirectShuffle(const Times& events, double length, bool by_days, std::mt19937_64* random) {
  Times moved;
  if (!by_days) {
    const double offset = std::uniform_real_distribution<>(0, length)(*random);
    for (const double at : events) moved.push_back(std::fmod(at + offset, length));
    return moved;
  }
  const auto days = static_cast<std::size_t>(std::ceil(length / kDay_s));
  std::vector<std::size_t> order(days);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t week = 0; week < days; week += 7)
    std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(week),
                 order.begin() + static_cast<std::ptrdiff_t>(std::min(week + 7, days)), *random);
  Times offsets(days);
  for (double& one : offsets) one = std::uniform_real_distribution<>(-kHour_s, kHour_s)(*random);
  for (const double at : events) {
    const auto day = std::min(days - 1, static_cast<std::size_t>(at / kDay_s));
    moved.push_back(at + (static_cast<double>(order[day]) - static_cast<double>(day)) * kDay_s + offsets[day]);
  }
  return moved;
}

double DirectP(const Times& events, const Times& failures, double length, bool by_days, double window_s) {
  std::mt19937_64 random(7);
  const std::size_t observed = DirectCount(events, failures, window_s);
  int as_many = 0, tried = 0;
  while (tried < 1999 && as_many < 25) {
    ++tried;
    as_many += DirectCount(DirectShuffle(events, length, by_days, &random), failures, window_s) >= observed;
  }
  if (as_many == 25) return 25.0 / tried;
  const double different = by_days ? 1999 : std::min(1999.0, length / window_s);
  return (1 + as_many / 1999.0 * different) / (1 + different);
}

// Some moments at once, some events in bursts, and type e0 before a share of the failures. No silence of six hours.
History RandomHistory(std::mt19937_64* random, double days) {
  const auto below = [&](int most) { return static_cast<int>((*random)() % static_cast<unsigned>(most)); };
  History history;
  const int minutes = static_cast<int>(days * 1440), types = 1 + below(6);
  for (int at = 0; at <= minutes; at += 300) history.events.push_back({at * 60.0, "always", "", "", ""});
  for (int i = 0; i < 20 + below(100); ++i)
    history.events.push_back({below(minutes) * 60.0, "e" + std::to_string(below(types)), "", "", ""});
  for (int i = 0; i < 10 + below(60); ++i) {
    const double at = below(minutes) * 60.0;
    history.failures.push_back({at, "failure", "c" + std::to_string(below(3)), "", ""});
    if (below(4) == 0) history.events.push_back({at - 60.0 * below(10), "e0", "", "", ""});
  }
  Settle(&history);
  return history;
}

TEST(Precursors, AreThoseOfTheDefinition) {
  std::mt19937_64 random(42);
  for (int round = 0; round < 40; ++round) {
    const bool by_days = round % 2 == 0;
    const double window_s = 60.0 * (1 + static_cast<double>(random() % 30));
    const History history = RandomHistory(&random, by_days ? 12 : 4);
    std::map<std::string, Times> events, failures;
    double first = history.events.front().at, last = history.events.back().at;
    first = std::min(first, history.failures.front().at), last = std::max(last, history.failures.back().at);
    for (const Event& one : history.events) events[one.type].push_back(one.at - first);
    for (const Event& one : history.failures)
      for (const std::string& category : {one.category, std::string("any")})
        failures[category].push_back(one.at - first);
    const std::vector<Precursor> found = FindPrecursors(history, window_s);
    ASSERT_EQ(found.size(), events.size() * failures.size());
    for (const Precursor& one : found) {
      const Times &of_event = events[one.event], &of_failure = failures[one.failure];
      EXPECT_EQ(one.cases, DirectCount(of_event, of_failure, window_s)) << one.event << ' ' << one.failure;
      ASSERT_EQ(one.p.has_value(), of_event.size() >= 5 && of_failure.size() >= 5);
      if (one.p) {
        EXPECT_DOUBLE_EQ(*one.p, DirectP(of_event, of_failure, last - first + window_s, by_days, window_s))
            << one.event << ' ' << one.failure;
      }
    }
  }
}

}  // namespace
}  // namespace ncclwatch::correlate
