#include "watchdog/diagnosis/slow/regression.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "watchdog/diagnosis/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestSteps = 20;
constexpr double kStandardErrors = 6;
constexpr double kCovers = 0.8;  // of what was added, before one part is named

// One value for each step that some rank has: the median over the ranks.
template <class Value>
std::vector<double> BySteps(const StepTable& table, Value value) {
  std::vector<double> all;
  for (std::size_t step = 0; step < table.steps(); ++step) {
    std::vector<double> ranks;
    for (const auto& row : table.parts)
      if (row[step].duration_ns > 0) ranks.push_back(static_cast<double>(value(row[step])));
    if (!ranks.empty()) all.push_back(Median(std::move(ranks)));
  }
  return all;
}

double ErrorOf(const std::vector<double>& values) {
  return kErrorOfMedian * RobustSigma(values, Median(values)) / std::sqrt(static_cast<double>(values.size()));
}

// Waits and computation mirror one another from rank to rank: the mean over the ranks, of each step.
template <class Value>
double LevelOf(const StepTable& table, Value value) {
  std::vector<double> all;
  for (std::size_t step = 0; step < table.steps(); ++step) {
    double sum = 0, ranks = 0;
    for (const auto& row : table.parts)
      if (row[step].duration_ns > 0) sum += static_cast<double>(value(row[step])), ++ranks;
    if (ranks > 0) all.push_back(sum / ranks);
  }
  return Median(std::move(all));
}

StepLevels LevelsOf(const StepTable& table) {
  return {LevelOf(table, [](const StepPart& part) { return part.duration_ns; }),
          LevelOf(table, [](const StepPart& part) { return part.compute_ns(); }),
          LevelOf(table, [](const StepPart& part) { return part.exposed_ns; }),
          LevelOf(table, [](const StepPart& part) { return part.wait_ns; }),
          LevelOf(table, [](const StepPart& part) { return part.idle_ns; })};
}

Regression::Part GrownPart(const StepLevels& before, const StepLevels& after) {
  using Part = Regression::Part;
  const double added = after.step - before.step;
  const std::pair<double, Part> parts[] = {{after.compute - before.compute, Part::kCompute},
                                           {after.exposed - before.exposed, Part::kExposed},
                                           {after.wait - before.wait, Part::kWait},
                                           {after.idle - before.idle, Part::kIdle}};
  for (const auto& [grown, part] : parts)
    if (grown >= kCovers * added) return part;
  return Part::kSeveral;
}

double ComputeOf(const std::vector<StepPart>& row) {
  std::vector<double> all;
  for (const StepPart& part : row)
    if (part.duration_ns > 0) all.push_back(static_cast<double>(part.compute_ns()));
  return Median(std::move(all));
}

// Who computes longer than before, of the ranks that both have; empty: most do.
std::vector<std::size_t> WhoComputesLonger(const StepTable& now, const StepTable& baseline) {
  std::vector<std::pair<std::size_t, double>> grown;
  double most = 0;
  for (std::size_t row = 0; row < now.ranks.size(); ++row) {
    const auto then = std::find(baseline.ranks.begin(), baseline.ranks.end(), now.ranks[row]);
    if (then == baseline.ranks.end()) continue;
    const double before = ComputeOf(baseline.parts[static_cast<std::size_t>(then - baseline.ranks.begin())]);
    grown.emplace_back(row, ComputeOf(now.parts[row]) - before);
    most = std::max(most, grown.back().second);
  }
  std::vector<std::size_t> rows;
  for (const auto& [row, by] : grown)
    if (by > most / 2) rows.push_back(row);
  return 2 * rows.size() > grown.size() ? std::vector<std::size_t>() : rows;
}

}  // namespace

std::optional<Regression> FindRegression(const StepTable& now, const StepTable& baseline, double least) {
  const auto duration = [](const StepPart& part) { return part.duration_ns; };
  const std::vector<double> before = BySteps(baseline, duration), after = BySteps(now, duration);
  if (before.size() < kFewestSteps || after.size() < kFewestSteps) return std::nullopt;
  Regression found;
  found.before = LevelsOf(baseline);
  found.after = LevelsOf(now);
  if (found.before.step <= 0) return std::nullopt;
  found.change = found.after.step / found.before.step - 1;
  const double error_before = ErrorOf(before), error_after = ErrorOf(after);
  const double error = std::sqrt(error_before * error_before + error_after * error_after);
  found.errors = (found.after.step - found.before.step) / std::max(error, 1e-3 * found.before.step);
  if (found.change < least || found.errors < kStandardErrors) return std::nullopt;
  found.part = GrownPart(found.before, found.after);
  if (found.part == Regression::Part::kCompute) found.rows = WhoComputesLonger(now, baseline);
  return found;
}

}  // namespace ncclwatch::diagnosis
