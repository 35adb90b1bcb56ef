#include "analyzer/bisect/culprits.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>

#include "analyzer/bisect/beliefs.h"
#include "analyzer/bisect/border.h"

namespace ncclwatch::bisect {
namespace {

constexpr double kSure = 0.98;    // of one question
constexpr double kMayBe = 0.045;  // a noise that is believed less does not make runs be repeated
constexpr int kMostRuns = 24;     // for it
constexpr std::size_t kMostNeeded = 8;

Items Without(const Items& all, const Items& some) {
  Items rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

class CulpritSearch {
 public:
  CulpritSearch(double confidence, const RunItems& run, const NoiseBeliefs& noises)
      : confidence_(confidence), run_(run), noises_(noises) {}

  Culprits Find(std::size_t count) {
    Items rest(count);
    std::iota(rest.begin(), rest.end(), std::size_t{0});
    found_.confidence = 1;
    if (!Fails(rest)) return Failed("a run with all items does not fail");
    if (Fails({})) return Failed("a run without any item fails too: the cause lies elsewhere");
    do {
      const std::optional<Items> group = GroupIn(rest);
      if (!group) break;
      found_.groups.push_back(*group);
      rest = Without(rest, *group);
    } while (!rest.empty() && Fails(rest));
    if (!found_.groups.empty()) found_.why_not.clear();
    return found_;
  }

 private:
  Culprits Failed(const char* why) {
    found_.why_not = why;
    return found_;
  }

  Outcome Ask(const Items& items) {
    ++found_.runs;
    return run_(items);
  }

  // As often as it takes, by what is known of the noise. What cannot be told does not fail.
  bool Fails(const Items& items) {
    Beliefs beliefs({1, 1}, noises_);
    constexpr std::size_t kBad = 1;
    for (int i = 0; i < kMostRuns; ++i) {
      const Outcome outcome = Ask(items);
      if (outcome == Outcome::kUnknown) return false;
      beliefs.Learn(outcome, [](std::size_t truth) { return truth == kBad; });
      if (beliefs.LeastOf({beliefs.Best()}, kMayBe) >= kSure) break;
    }
    noises_ = beliefs.OfNoises();
    return beliefs.Best() == kBad;
  }

  // `rest` fails.
  std::optional<Items> GroupIn(const Items& rest) {
    Items needed;
    while (needed.empty() || !Fails(needed)) {
      const Items others = Without(rest, needed);
      if (others.empty() || needed.size() == kMostNeeded) break;
      const auto with = [&](std::int64_t count) {
        Items items = needed;
        items.insert(items.end(), others.begin(), others.begin() + count);
        std::sort(items.begin(), items.end());
        return Ask(items);
      };
      const Border border = FindBorderBetween(0, static_cast<std::int64_t>(others.size()), confidence_, with, &noises_);
      if (!border.first_bad) {
        found_.why_not = border.why_not;
        return std::nullopt;
      }
      found_.confidence *= border.confidence;
      // Sizes that could not be told lie between: any of those items may be it.
      for (std::int64_t place = *border.last_good; place < *border.first_bad; ++place)
        needed.push_back(others[static_cast<std::size_t>(place)]);
      std::sort(needed.begin(), needed.end());
    }
    return needed;
  }

  const double confidence_;
  const RunItems& run_;
  NoiseBeliefs noises_;
  Culprits found_;
};

}  // namespace

Culprits FindCulprits(std::size_t count, double confidence, const RunItems& run, const NoiseBeliefs& noises) {
  return CulpritSearch(confidence, run, noises).Find(count);
}

}  // namespace ncclwatch::bisect
