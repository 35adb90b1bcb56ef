#include "core/slow/memory_growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/model/text.h"
#include "core/slow/robust.h"
#include "core/slow/trend.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr char kAllocated[] = "memory_allocated", kReserved[] = "memory_reserved", kTotal[] = "memory_total";
constexpr std::size_t kFewestFigures = 200;  // values, before anything is said
constexpr std::size_t kFewestBehind = 100;   // ... of them since it has begun to grow
constexpr std::size_t kGrowthPieces = 32;
constexpr double kChance = 1e-5;           // of a job in which nothing grows
constexpr double kLeastGrowth = 0.02;      // of the level
constexpr double kMostFallBack = 1 / 3.0;  // of the growth: what a garbage collector gives back falls further
constexpr double kGoesOn = 0.6;            // the second half grows by this share of the first one: no warm-up does
constexpr double kQuartile = 0.25;

struct Growth {
  int rank = -1;
  std::size_t onset = 0;
  std::int64_t step = 0, at_ns = 0;
  double before = 0, now = 0, for_each_step = 0, chance = 0;
};

// What a piece of a series does not fall below for long: peaks of an evaluation do not raise it.
std::vector<double> Floors(const std::vector<double>& values) {
  std::vector<double> floors;
  const std::size_t pieces = std::min(kGrowthPieces, values.size() / 8);
  for (std::size_t i = 0; i < pieces; ++i) {
    std::vector<double> piece(values.begin() + static_cast<std::ptrdiff_t>(i * values.size() / pieces),
                              values.begin() + static_cast<std::ptrdiff_t>((i + 1) * values.size() / pieces));
    const auto at = piece.begin() + static_cast<std::ptrdiff_t>(kQuartile * static_cast<double>(piece.size()));
    std::nth_element(piece.begin(), at, piece.end());
    floors.push_back(*at);
  }
  return floors;
}

double FurthestFall(const std::vector<double>& values) {
  double highest = values.front(), furthest = 0;
  for (const double value : values) {
    highest = std::max(highest, value);
    furthest = std::max(furthest, highest - value);
  }
  return furthest;
}

double GrowthOf(const std::vector<double>& floors, std::size_t begin, std::size_t end) {
  std::vector<double> x, y;
  for (std::size_t i = begin; i < end; ++i) x.push_back(static_cast<double>(i)), y.push_back(floors[i]);
  return TheilSen(x, y) * static_cast<double>(end - begin);
}

// Peaks of an evaluation of a few steps are none of it.
std::vector<double> Smooth(const std::vector<double>& values) {
  constexpr std::size_t kHalf = 5;
  std::vector<double> smooth;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t reach = std::min({kHalf, i, values.size() - 1 - i});
    smooth.push_back(Median(std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(i - reach),
                                                values.begin() + static_cast<std::ptrdiff_t>(i + reach + 1))));
  }
  return smooth;
}

// The first value that is not far below those that follow it.
std::size_t WarmUp(const std::vector<double>& values) {
  const std::size_t window = values.size() / 10;
  for (std::size_t i = 0; i + window < values.size() / 2; ++i) {
    const auto next = values.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<double> following(next, next + static_cast<std::ptrdiff_t>(window));
    const double level = Median(following);
    if (values[i] >= level - 2 * RobustSigma(following, level)) return i;
  }
  return 0;
}

std::size_t GrowthOnset(const std::vector<double>& values) {
  const std::vector<double> smooth = Smooth(values);
  const std::size_t warm = WarmUp(smooth);
  return warm + FindKink(std::vector<double>(smooth.begin() + static_cast<std::ptrdiff_t>(warm), smooth.end())).at;
}

// `level`: of which growth is a share; 0: of the series itself.
std::optional<Growth> GrowthOf(const RankSeries& of, double level, double chance) {
  const std::vector<double> all = ValuesOf(of.points);
  if (all.size() < kFewestFigures) return std::nullopt;
  Growth growth;
  growth.rank = of.rank;
  growth.onset = GrowthOnset(all);
  if (growth.onset < all.size() / 20) growth.onset = 0;  // no level before it that could be told from the slope
  if (all.size() - growth.onset < kFewestBehind) return std::nullopt;
  const std::vector<double> values(all.begin() + static_cast<std::ptrdiff_t>(growth.onset), all.end());
  const std::vector<double> floors = Floors(values);
  growth.chance = ChanceOf(MannKendall(floors));
  const double grown = GrowthOf(floors, 0, floors.size());
  const double first = GrowthOf(floors, 0, floors.size() / 2),
               second = GrowthOf(floors, floors.size() / 2, floors.size());
  growth.before = floors.front();
  if (level == 0) level = std::abs(growth.before);
  if (growth.chance > chance || grown < kLeastGrowth * level || first <= 0 || second < kGoesOn * first ||
      FurthestFall(floors) > kMostFallBack * grown)
    return std::nullopt;
  const Point &from = of.points[growth.onset], &last = of.points.back();
  growth.step = from.step;
  growth.at_ns = from.at_ns;
  growth.now = floors.back();
  growth.for_each_step = grown / static_cast<double>(std::max<std::int64_t>(1, last.step - from.step));
  return growth;
}

// What is reserved and not allocated, in the steps that have both.
std::vector<RankSeries> Gaps(const std::vector<RankSeries>& reserved, const std::vector<RankSeries>& allocated) {
  std::map<int, const Series*> allocated_of;
  for (const RankSeries& of : allocated) allocated_of[of.rank] = &of.points;
  std::vector<RankSeries> gaps;
  for (const RankSeries& of : reserved) {
    const Series* const inner = allocated_of[of.rank];
    RankSeries gap{of.rank, {}};
    std::size_t at = 0;
    for (const Point& point : of.points) {
      while (inner && at < inner->size() && (*inner)[at].step < point.step) ++at;
      if (!inner || at == inner->size() || (*inner)[at].step != point.step) continue;
      gap.points.push_back({point.step, point.at_ns, point.value - (*inner)[at].value});
    }
    gaps.push_back(std::move(gap));
  }
  return gaps;
}

using ByRank = std::map<int, double>;

// The medians of the newest values.
ByRank NowOf(const std::vector<RankSeries>& all) {
  constexpr std::size_t kNewestPoints = 20;
  ByRank now;
  for (const RankSeries& of : all) {
    std::vector<double> newest;
    for (auto point = of.points.rbegin(); point != of.points.rend() && newest.size() < kNewestPoints; ++point)
      newest.push_back(point->value);
    now[of.rank] = Median(std::move(newest));
  }
  return now;
}

double At(const ByRank& values, int rank) {
  const auto found = values.find(rank);
  return found == values.end() ? 0 : found->second;
}

std::vector<Growth> Growing(const std::vector<RankSeries>& all, const ByRank& levels) {
  std::vector<Growth> growing;
  for (const RankSeries& of : all)
    if (auto growth = GrowthOf(of, At(levels, of.rank), kChance / static_cast<double>(all.size())))
      growing.push_back(*growth);
  return growing;
}

std::string Size(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

struct Grown {
  const char* metric;
  std::vector<Growth> growing;
  std::size_t all;
};

// Of the rank that has the fewest left; `fills`: what fills its memory.
std::optional<double> StepsUntilFull(const Grown& grown, const ByRank& fills, const ByRank& totals) {
  std::optional<double> fewest;
  for (const Growth& growth : grown.growing) {
    const double total = At(totals, growth.rank), left = total - At(fills, growth.rank);
    if (total <= 0 || left < 0) continue;
    const double steps = left / growth.for_each_step;
    if (!fewest || steps < *fewest) fewest = steps;
  }
  return fewest;
}

NumberFinding FindingOf(Grown grown, bool fragmented, const ByRank& fills, const ByRank& totals) {
  std::vector<Growth>& growing = grown.growing;
  NumberFinding finding{.kind = Kind::kMemoryGrowth, .certainty = Certainty::kLikely};
  if (2 * growing.size() <= grown.all)
    for (const Growth& growth : growing) finding.ranks.push_back(growth.rank);
  std::sort(growing.begin(), growing.end(), [](const Growth& a, const Growth& b) { return a.step < b.step; });
  const Growth& middle = growing[growing.size() / 2];
  finding.step = middle.step;
  finding.at_ns = middle.at_ns;
  finding.since_before = middle.onset == 0;
  finding.effect = Effect{grown.metric, "B", middle.before, middle.now};
  const std::string whose = WhoseText(finding.ranks, grown.all);
  const std::string what =
      fragmented ? "fragments: what is reserved and not allocated" : fmt::format("leaks: {}", grown.metric);
  const std::string since = finding.since_before ? "" : fmt::format(" since step {}", middle.step);
  finding.summary = fmt::format("Memory of {} {} grows by {} a step{}, from {} to {}.", whose, what,
                                Size(middle.for_each_step), since, Size(middle.before), Size(middle.now));
  if (const auto steps = StepsUntilFull(grown, fills, totals))
    finding.evidence.push_back(fmt::format("at that rate it is full in {:.0f} steps", *steps));
  double highest = 0;
  for (const Growth& growth : growing) highest = std::max(highest, growth.chance);
  finding.evidence.push_back(
      fmt::format("its lower quartile rises from stretch to stretch and does not fall back: by chance with p < {:.0e} "
                  "(Mann-Kendall)",
                  std::max(highest, 1e-300)));
  finding.next_steps.push_back(
      fragmented ? "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and look at torch.cuda.memory_summary() for "
                   "sizes that vary from step to step"
                 : "compare torch.cuda.memory._snapshot() (in C: the allocations of the program) of two steps some "
                   "hundred apart: entries that are only in the second one are the leak. Losses kept with their "
                   "graph are the usual reason");
  return finding;
}

}  // namespace

std::optional<NumberFinding> FindMemoryGrowth(const std::vector<RankNumbers>& ranks) {
  const std::vector<RankSeries> allocated = SeriesOf(ranks, kAllocated), reserved = SeriesOf(ranks, kReserved);
  const ByRank totals = NowOf(SeriesOf(ranks, kTotal)), fills = NowOf(reserved.empty() ? allocated : reserved);
  const std::vector<RankSeries>& reported = allocated.empty() ? reserved : allocated;
  Grown leak{allocated.empty() ? kReserved : kAllocated, Growing(reported, {}), reported.size()};
  if (!leak.growing.empty()) return FindingOf(std::move(leak), false, fills, totals);
  Grown gap{kReserved, Growing(Gaps(reserved, allocated), fills), reserved.size()};
  return gap.growing.empty() ? std::nullopt : std::optional(FindingOf(std::move(gap), true, fills, totals));
}

}  // namespace ncclwatch::diagnosis
