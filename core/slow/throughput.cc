#include "core/slow/throughput.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/model/text.h"
#include "core/slow/change_point.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr const char* kMetrics[] = {"tokens_per_s", "mfu"};
constexpr std::size_t kFewestAside = 20;  // values on each side of the fall
constexpr double kLeastFall = 0.05;
constexpr double kDropErrors = 8, kLikelyDrop = 12;  // standard errors between both sides
constexpr double kWide = 3;                          // standard deviations beyond which a value counts as that far

struct Drop {
  int rank = -1;
  std::size_t onset = 0;
  double before = 0, after = 0, errors = 0;
};

std::optional<Drop> DropOf(const std::vector<double>& values) {
  if (values.size() < 2 * kFewestAside) return std::nullopt;
  const double middle = Median(values), scatter = RobustSigma(values, middle);
  if (middle <= 0 || scatter <= 0) return std::nullopt;
  std::vector<double> falls;
  for (const double value : values) falls.push_back((middle - value) / (kWide * scatter));
  Drop drop;
  drop.onset = RoseAt(falls);
  if (drop.onset < kFewestAside || values.size() - drop.onset < kFewestAside) return std::nullopt;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(drop.onset);
  const std::vector<double> before(values.begin(), at), after(at, values.end());
  drop.before = Median(before);
  drop.after = Median(after);
  const double latest = Median(std::vector<double>(values.end() - kFewestAside / 2, values.end()));
  const auto variance = [](const std::vector<double>& side, double level) {
    const double error = kErrorOfMedian * RobustSigma(side, level);
    return error * error / static_cast<double>(side.size());
  };
  drop.errors = (drop.before - drop.after) / std::sqrt(variance(before, drop.before) + variance(after, drop.after));
  const double fall = drop.before - drop.after;
  if (fall < kLeastFall * drop.before || drop.errors < kDropErrors || drop.before - latest < fall / 2)
    return std::nullopt;
  return drop;
}

std::optional<NumberFinding> Slower(const std::vector<RankNumbers>& ranks, const char* metric) {
  const std::vector<RankSeries> all = SeriesOf(ranks, metric);
  if (all.empty()) return std::nullopt;
  NumberFinding finding{.kind = Kind::kRegression};
  const RankSeries* of = nullptr;
  std::optional<Drop> found;
  for (const RankSeries& one : all)
    if (const auto drop = DropOf(ValuesOf(one.points))) found = drop, of = &one, finding.ranks.push_back(one.rank);
  Series series = of ? of->points : Series{};
  if (2 * finding.ranks.size() > all.size() || !found) {  // all together say when more exactly
    finding.ranks.clear();
    series = MedianOverRanks(all);
    found = DropOf(ValuesOf(series));
  }
  if (!found) return std::nullopt;
  if (found->errors >= kLikelyDrop) finding.certainty = Certainty::kLikely;
  finding.step = series[found->onset].step;
  finding.at_ns = series[found->onset].at_ns;
  finding.effect = Effect{metric, "", found->before, found->after};
  finding.summary = fmt::format("{} of {} fell by {:.1f} % in step {}, from {:.4g} to {:.4g}.", metric,
                                WhoseText(finding.ranks, all.size()), 100 * (1 - found->after / found->before),
                                finding.step, found->before, found->after);
  finding.evidence.push_back(fmt::format("{:.0f} standard errors between the medians of {} values before and {} after",
                                         found->errors, found->onset, series.size() - found->onset));
  finding.next_steps.push_back(
      "see which part of a step has grown since then (`ncclwatch stats --steps`); look at clocks and temperatures of "
      "the "
      "GPUs, and at what the program changed in that step: sequence length, batch size, evaluation, logging");
  return finding;
}

}  // namespace

std::optional<NumberFinding> FindSlowerProgram(const std::vector<RankNumbers>& ranks) {
  for (const char* metric : kMetrics)
    if (auto finding = Slower(ranks, metric)) return finding;
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
