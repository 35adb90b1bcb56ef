#include "analyzer/bisect/border.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "analyzer/bisect/beliefs.h"

namespace ncclwatch::bisect {
namespace {

// Hypothesis k: sizes from low + k on are bad. 0: all are, count: none is.
class BorderSearch {
 public:
  BorderSearch(std::int64_t low, std::int64_t high, const RunSize& run, const NoiseBeliefs& noises)
      : low_(low),
        count_(static_cast<std::size_t>(high - low + 1)),
        run_(run),
        noises_(noises),
        beliefs_(Weights(count_), noises) {}

  Border Find(double confidence) {
    const Outcome at_low = Ask(0), at_high = Ask(count_ - 1);
    if (at_low == Outcome::kUnknown || at_high == Outcome::kUnknown)
      return Failed(fmt::format("the outcome for {} is unknown (status 125)",
                                low_ + static_cast<std::int64_t>(at_low == Outcome::kUnknown ? 0 : count_ - 1)));
    if (at_low == Outcome::kBad && at_high == Outcome::kGood) Turn();
    return Narrow(confidence);
  }

  Border FindBetween(double confidence, NoiseBeliefs* noises) {
    std::vector<double> weights(count_ + 1, 1.0);
    weights.front() = weights.back() = kEndIsWrong * static_cast<double>(count_);
    beliefs_ = Beliefs(weights, *noises);
    const Border border = Narrow(confidence);
    *noises = beliefs_.OfNoises();
    return border;
  }

 private:
  static constexpr double kEndIsWrong = 0.01;
  // To stop when one is sure is to stop when chance has made one sure: half of the doubt is kept for that.
  static constexpr double kOfDoubt = 0.5;

  Border Narrow(double confidence) {
    const int most = 40 + 20 * static_cast<int>(std::log2(static_cast<double>(count_)));
    while (border_.runs < most) {
      const std::vector<double> beliefs = beliefs_.OfHypotheses();
      const std::size_t best = beliefs_.Best();
      border_.confidence = ConfidenceOf(best);
      if (border_.confidence >= 1 - (1 - confidence) * kOfDoubt) return Conclude(best);
      const std::optional<std::size_t> next = Halving(beliefs);
      if (!next) return Conclude(best);
      Ask(*next);
    }
    return Failed(
        fmt::format("not sure enough after {} runs: the outcome depends on more than the size", border_.runs));
  }

  static std::vector<double> Weights(std::size_t count) {
    std::vector<double> weights(count + 1, 1);
    weights.front() = weights.back() = std::max(1.0, static_cast<double>(count) / 10);
    return weights;
  }

  // Small sizes fail, and large ones do not: sizes are then counted from above.
  void Turn() {
    turned_ = true;
    beliefs_ = Beliefs(Weights(count_), noises_);
    for (const bool high : {true, false}) Learn(high ? 0 : count_ - 1, high ? Outcome::kGood : Outcome::kBad);
  }
  std::int64_t SizeAt(std::size_t place) const {
    return low_ + static_cast<std::int64_t>(turned_ ? count_ - 1 - place : place);
  }

  Outcome Ask(std::size_t place) {
    const Outcome outcome = run_(SizeAt(place));
    ++border_.runs;
    if (outcome == Outcome::kUnknown) unreported_.insert(place);
    Learn(place, outcome);
    return outcome;
  }
  void Learn(std::size_t place, Outcome outcome) {
    beliefs_.Learn(outcome, [&](std::size_t border) { return place >= border; });
  }

  // Borders between which nothing can be told are one.
  double ConfidenceOf(std::size_t best) const {
    std::vector<std::size_t> borders{best};
    for (std::size_t place = best; place < count_ && unreported_.contains(place); ++place) borders.push_back(place + 1);
    for (std::size_t place = best; place > 0 && unreported_.contains(place - 1); --place) borders.push_back(place - 1);
    return beliefs_.LeastOf(borders);
  }

  // The place that is bad with a chance nearest to a half, among those that can be told.
  std::optional<std::size_t> Halving(const std::vector<double>& beliefs) const {
    std::optional<std::size_t> found;
    double bad = 0, off = 1;
    for (std::size_t place = 0; place < count_; ++place) {
      bad += beliefs[place];
      const double its = std::abs(bad - 0.5);
      if (!unreported_.contains(place) && its < off) found = place, off = its;
    }
    constexpr double kTellsNothing = 0.5 - 1e-9;
    return off < kTellsNothing ? found : std::nullopt;
  }

  Border Conclude(std::size_t best) {
    std::size_t first = best, last = best;  // best may be count_, last may be 0
    while (first < count_ && unreported_.contains(first)) ++first;
    while (last > 0 && unreported_.contains(last - 1)) --last;
    if (first == count_)
      return Failed(fmt::format("no size from {} to {} fails", low_, low_ + static_cast<std::int64_t>(count_) - 1));
    if (last == 0)
      return Failed(fmt::format("all sizes from {} to {} fail", low_, low_ + static_cast<std::int64_t>(count_) - 1));
    border_.last_good = SizeAt(last - 1);
    border_.first_bad = SizeAt(first);
    return border_;
  }
  Border Failed(std::string why) {
    border_.why_not = std::move(why);
    return border_;
  }

  const std::int64_t low_;
  const std::size_t count_;
  const RunSize& run_;
  const NoiseBeliefs noises_;
  Beliefs beliefs_;
  Border border_;
  std::set<std::size_t> unreported_;
  bool turned_ = false;
};

}  // namespace

Border FindBorder(std::int64_t low, std::int64_t high, double confidence, const RunSize& run,
                  const NoiseBeliefs& noises) {
  return BorderSearch(low, high, run, noises).Find(confidence);
}

Border FindBorderBetween(std::int64_t low, std::int64_t high, double confidence, const RunSize& run,
                         NoiseBeliefs* noises) {
  return BorderSearch(low, high, run, *noises).FindBetween(confidence, noises);
}

}  // namespace ncclwatch::bisect
