#include "core/slow/learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/slow/robust.h"
#include "core/slow/trend.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr char kLoss[] = "loss", kClasses[] = "classes";
constexpr std::size_t kFewestLosses = 200;  // losses, before a training is said not to learn
constexpr double kNear = 0.03;              // of ln(classes)
constexpr std::size_t kFewestFlat = 200;    // losses of a plateau
constexpr std::size_t kFewestFalling = 20;  // ... and before it
constexpr std::size_t kLossPieces = 24;
constexpr double kOneSided = 3.09;  // standard errors: one side, 99.9 %
constexpr double kShown = 2.326;    // ... 99 %
constexpr double kNoFall = 0.001;   // of the loss, over a plateau: as good as none
constexpr double kMostFall = 0.01;  // ... that a plateau is sure not to exceed
constexpr double kSlower = 10;      // times, than before the plateau

std::vector<double> Tail(const std::vector<double>& values, std::size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(std::min(count, values.size())), values.end()};
}

// How much a stretch falls from its begin to its end, as a share of its level, and the standard error of that. The
// medians of pieces scatter as the values do, however one depends on the next.
struct Fall {
  double share = 0, error = 0;
};
Fall FallOf(const std::vector<double>& values) {
  const std::vector<double> pieces = PieceMedians(values, kLossPieces);
  const double level = Median(pieces), length = static_cast<double>(pieces.size());
  const Line line = FitLine(pieces);
  return {-line.slope * length / level, line.error * length / level};
}

// How many of the newest values are level: before them the loss falls. Only the last of what falls is fitted, since
// that is no straight line.
std::size_t LevelLength(std::vector<double> values) {
  constexpr std::size_t kFitted = 80;
  constexpr int kRounds = 8;
  // Seen from its end the loss is level, and then rises.
  std::reverse(values.begin(), values.end());
  std::size_t level = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t at = FindKink(values).at + 1;
    if (at == level) break;
    level = at;
    values.resize(std::min(values.size(), level + kFitted));
  }
  return level;
}

double LastSaid(const std::vector<RankSeries>& all) {
  double value = 0;
  std::int64_t at_ns = INT64_MIN;
  for (const RankSeries& of : all)
    if (of.points.back().at_ns > at_ns) at_ns = of.points.back().at_ns, value = of.points.back().value;
  return value;
}

}  // namespace

std::optional<NumberFinding> FindNotLearning(const std::vector<RankNumbers>& ranks) {
  const std::vector<RankSeries> classes = SeriesOf(ranks, kClasses);
  const double count = classes.empty() ? 0 : LastSaid(classes);
  if (count < 2) return std::nullopt;
  const Series series = MedianOverRanks(SeriesOf(ranks, kLoss));
  const std::vector<double> values = ValuesOf(series);
  if (values.size() < kFewestLosses) return std::nullopt;
  const double guessing = std::log(count);
  const std::vector<double> newer = Tail(values, values.size() / 2);
  const double level = Median(newer);
  const double error = kErrorOfMedian * RobustSigma(newer, level) / std::sqrt(static_cast<double>(newer.size()));
  const Fall fall = FallOf(values);
  if (std::abs(level - guessing) + kShown * error > kNear * guessing) return std::nullopt;
  if (fall.share > kShown * fall.error && fall.share > kNoFall) return std::nullopt;  // slowly, but it does
  NumberFinding finding{.kind = Kind::kNotLearning, .certainty = Certainty::kLikely};
  finding.step = series.front().step;
  finding.at_ns = series.front().at_ns;
  finding.since_before = true;
  finding.effect = Effect{kLoss, "", guessing, level};
  finding.summary = fmt::format(
      "The training does not learn: from step {} to {} the loss has stayed at {:.4g}, and guessing among {:.0f} "
      "classes "
      "has {:.4g}.",
      series.front().step, series.back().step, level, count, guessing);
  finding.evidence.push_back(
      fmt::format("a straight line through {} losses falls by {:.2f} %, by at most {:.2f} % with 99.9 % confidence",
                  values.size(), 100 * fall.share, 100 * (fall.share + kOneSided * fall.error)));
  finding.next_steps.push_back(
      "train on a single batch: a loss that does not fall there either has a fault in the model, the labels or the "
      "learning rate (are gradients None or zero? do labels go with their inputs after shuffling? is the optimizer "
      "given "
      "the parameters that are trained?)");
  return finding;
}

std::optional<NumberFinding> FindLossPlateau(const std::vector<RankNumbers>& ranks) {
  const Series series = MedianOverRanks(SeriesOf(ranks, kLoss));
  std::vector<double> values = ValuesOf(series);
  if (values.size() < kFewestFlat + kFewestFalling) return std::nullopt;
  const std::size_t flat = LevelLength(values);
  if (flat < kFewestFlat || flat + kFewestFalling > values.size()) return std::nullopt;
  const std::size_t onset = values.size() - flat, before = std::min(onset, flat);
  const Fall now = FallOf(Tail(values, flat));
  const std::vector<double> earlier(values.begin() + static_cast<std::ptrdiff_t>(onset - before),
                                    values.begin() + static_cast<std::ptrdiff_t>(onset));
  // Over as many losses as the plateau has.
  const double scale = static_cast<double>(flat) / static_cast<double>(before);
  Fall then = FallOf(earlier);
  then.share *= scale, then.error *= scale;
  const double at_most = now.share + kOneSided * now.error;
  if (now.share - kShown * now.error > kNoFall || at_most > kMostFall) return std::nullopt;
  if (then.share - kOneSided * then.error < kSlower * std::max(at_most, kNoFall)) return std::nullopt;
  NumberFinding finding{.kind = Kind::kLossPlateau};
  const double level = Median(Tail(values, flat));
  finding.step = series[onset].step;
  finding.at_ns = series[onset].at_ns;
  finding.effect =
      Effect{kLoss, "", Median(std::vector<double>(earlier.begin(), earlier.begin() + kFewestFalling)), level};
  finding.summary = fmt::format("The loss has stopped falling: it is {:.4g} since step {}, for {} losses.", level,
                                finding.step, flat);
  finding.evidence.push_back(fmt::format(
      "a straight line falls by {:.2f} % there, by at most {:.2f} % with 99.9 % confidence; at the pace before that it "
      "would have been {:.0f} %",
      100 * now.share, 100 * at_most, 100 * then.share));
  finding.next_steps.push_back(
      "see whether eval_loss still falls; if not, lower the learning rate or end the run here. If the loss should go "
      "lower, compare the learning rate and the data of that step with those before it");
  return finding;
}

}  // namespace ncclwatch::diagnosis
