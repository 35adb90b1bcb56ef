// The searches of `ncclwatch bisect` against made-up truths, also where outcomes are wrong now and then.
//
//   bisect_searches TRIALS      a table: how often right, how many runs; status 1 where less is right than is promised
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <random>

#include "analyzer/bisect/border.h"
#include "analyzer/bisect/culprits.h"

namespace {

using namespace ncclwatch::bisect;

constexpr double kConfidence = 0.95;

enum class Truth { kBorder, kOne, kBothNeeded, kEachOfTwo };
constexpr const char* kNames[] = {"border", "one culprit", "two needed together", "two, each by itself"};

// Wrong in so many runs: outcomes of both kinds, or bad ones that seem good.
struct Flakiness {
  double share;
  bool both;
  bool reported;  // --flaky
};

struct Trial {
  bool right;
  int runs;
};

bool Has(const Items& items, std::size_t item) { return std::binary_search(items.begin(), items.end(), item); }

Trial RunTrial(Truth truth, std::size_t count, const Flakiness& flaky, unsigned seed) {
  std::mt19937 random(seed);
  const auto outcome = [&](bool bad) {
    const bool wrong = (bad || flaky.both) && std::uniform_real_distribution<>()(random) < flaky.share;
    return bad != wrong ? Outcome::kBad : Outcome::kGood;
  };
  const NoiseBeliefs noises = FirstNoiseBeliefs(flaky.reported ? flaky.share : 0);
  if (truth == Truth::kBorder) {
    const auto border = static_cast<std::int64_t>(2 + random() % (count - 1));
    const Border found = FindBorder(
        1, static_cast<std::int64_t>(count), kConfidence, [&](std::int64_t n) { return outcome(n >= border); }, noises);
    return {found.first_bad == border && found.last_good == border - 1, found.runs};
  }
  const std::size_t one = random() % count, other = (one + 1 + random() % (count - 1)) % count;
  const auto fails = [&](const Items& items) {
    if (truth == Truth::kOne) return Has(items, one);
    return truth == Truth::kBothNeeded ? Has(items, one) && Has(items, other) : Has(items, one) || Has(items, other);
  };
  const Culprits found = FindCulprits(
      count, kConfidence, [&](const Items& items) { return outcome(fails(items)); }, noises);
  Items said;
  for (const Items& group : found.groups) std::copy(group.begin(), group.end(), std::back_inserter(said));
  std::sort(said.begin(), said.end());
  const Items wanted = truth == Truth::kOne ? Items{one} : Items{std::min(one, other), std::max(one, other)};
  const std::size_t groups = truth == Truth::kEachOfTwo ? 2 : 1;
  return {said == wanted && found.groups.size() == groups, found.runs};
}

bool RunRow(Truth truth, std::size_t count, const Flakiness& flaky, int trials) {
  int right = 0, most = 0;
  double runs = 0;
  for (int i = 0; i < trials; ++i) {
    const Trial trial = RunTrial(truth, count, flaky, static_cast<unsigned>(i) * 7919 + static_cast<unsigned>(count));
    right += trial.right;
    runs += trial.runs;
    most = std::max(most, trial.runs);
  }
  const double share = static_cast<double>(right) / trials;
  fmt::print("{:<20} {:>5} {:>4.0f} % {:<7} {:<5} {:>8.3f} {:>7.1f} {:>5}\n", kNames[static_cast<int>(truth)], count,
             100 * flaky.share,
             flaky.share == 0 ? ""
             : flaky.both     ? "both"
                              : "misses",
             flaky.reported ? "told" : "", share, runs / trials, most);
  if (flaky.share > 0) return share >= 0.8;  // of few trials; the table tells more
  constexpr int kMore = 9;                   // both ends, repeats until sure, and that it is all
  const int bound = static_cast<int>(2 * std::ceil(std::log2(static_cast<double>(count)))) + kMore;
  return right == trials && (most <= bound || truth == Truth::kBothNeeded || truth == Truth::kEachOfTwo);
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 60;
  bool good = true;
  fmt::print("{:<20} {:>5} {:>6} {:<7} {:<5} {:>8} {:>7} {:>5}\n", "truth", "of", "wrong", "", "", "right", "runs",
             "most");
  for (const Truth truth : {Truth::kBorder, Truth::kOne, Truth::kBothNeeded, Truth::kEachOfTwo})
    for (const std::size_t count : {8, 64, 1024})
      for (const Flakiness& flaky :
           {Flakiness{0, false, false}, {0.2, false, false}, {0.2, false, true}, {0.2, true, true}})
        good = RunRow(truth, count, flaky, trials) && good;
  return good ? 0 : 1;
}
