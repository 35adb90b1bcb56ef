#include "core/slow/chronic.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/slow/points.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr double kBlock_steps = 20;
constexpr double kMostLate = 0.1;           // of the step: later counts as that, so that single steps tell little
constexpr double kFewestValues = 10;        // blocks
constexpr double kRemembered_values = 100;  // older ones count half
constexpr std::size_t kFewestRanks = 8;     // that tell how much ranks differ anyway
constexpr double kChronicErrors = 5.5;
constexpr double kOutlierSpreads = 4;  // robust standard deviations of the ranks' own means
constexpr double kLeastLate_ns = 200'000;

// As late in each of so many steps.
void Add(double late, double steps, LatenessSums::Rank* rank) {
  rank->block += std::clamp(late, -kMostLate, kMostLate) * steps;
  rank->steps += steps;
  if (rank->steps < kBlock_steps) return;
  const double value = rank->block / rank->steps;
  rank->block = rank->steps = 0;
  ++rank->values;
  rank->sum += value;
  rank->squares += value * value;
  if (rank->values < kRemembered_values) return;
  rank->values /= 2;
  rank->sum /= 2;
  rank->squares /= 2;
}

// What kernels tell, or where they do not, what calls do.
Points PointsOf(const StepTable& table) {
  Points points = PointsOfKernels(table);
  return points.size() >= kFewestPoints ? points : PointsOfCalls(table);
}

// Of a rank in this table; 0: it has none.
double MeanLate(const StepTable& table, int rank) {
  const Points points = PointsOf(table);
  const auto row = std::lower_bound(table.ranks.begin(), table.ranks.end(), rank) - table.ranks.begin();
  if (row == std::ssize(table.ranks) || table.ranks[static_cast<std::size_t>(row)] != rank) return 0;
  double sum = 0;
  for (const double late : points.late[static_cast<std::size_t>(row)]) sum += std::clamp(late, -kMostLate, kMostLate);
  return sum / static_cast<double>(points.size());
}

double Deviation(const LatenessSums::Rank& rank) {
  const double mean = rank.sum / rank.values;
  return std::sqrt(std::max(0.0, rank.squares / rank.values - mean * mean) * rank.values / (rank.values - 1));
}

}  // namespace

void AddLateness(const StepTable& table, LatenessSums* sums) {
  constexpr std::size_t kUnsettled_steps = 2;
  if (table.steps() <= kUnsettled_steps) return;
  const Points points = PointsOf(table);
  for (std::size_t point = 0; point < points.size(); ++point) {
    const std::size_t first = points.first[point];
    const std::size_t end = point + 1 < points.size() ? points.first[point + 1] : table.steps();
    if (table.NumberOf(first) < sums->next_step || end + kUnsettled_steps > table.steps()) continue;
    sums->next_step = table.NumberOf(end - 1) + 1;
    sums->step_ns = points.step_ns[point];
    for (std::size_t row = 0; row < table.ranks.size(); ++row)
      if (table.parts[row][first].duration_ns > 0)
        Add(points.late[row][point], static_cast<double>(end - first), &sums->ranks[table.ranks[row]]);
  }
}

std::optional<Chronic> FindChronic(const LatenessSums& sums, const StepTable& now, double least) {
  std::vector<double> means, deviations;
  for (const auto& [rank, own] : sums.ranks) {
    if (own.values < kFewestValues) continue;
    means.push_back(own.sum / own.values);
    deviations.push_back(Deviation(own));
  }
  if (means.size() < kFewestRanks) return std::nullopt;
  const double usual = Median(means), spread = RobustSigma(means, usual), common = Median(deviations);
  std::optional<Chronic> found;
  for (const auto& [rank, own] : sums.ranks) {
    if (own.values < kFewestValues) continue;
    const double share = own.sum / own.values - usual;
    const double error = std::max(common, Deviation(own)) / std::sqrt(own.values);
    if (share < least || share * sums.step_ns < kLeastLate_ns) continue;
    if (share < kOutlierSpreads * spread || share < kChronicErrors * error) continue;
    if (found) return std::nullopt;  // whoever waits for it elsewhere is as late: who it is cannot be told
    found = Chronic{rank, share, share / error, static_cast<std::uint64_t>(own.values * kBlock_steps)};
  }
  return found && MeanLate(now, found->rank) >= least / 2 ? found : std::nullopt;
}

}  // namespace ncclwatch::diagnosis
