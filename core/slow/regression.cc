#include "core/slow/regression.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/slow/change_point.h"
#include "core/slow/points.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestSteps = 20;
constexpr double kCovers = 0.8;          // of what was added, before one part is named
constexpr std::size_t kPhase_steps = 5;  // so many in a row are a phase of the program
constexpr double kMostCrossing = 0.2;    // ... or so many of them all
constexpr double kSteady = 0.25;         // of the rise, that a level may move by
constexpr double kSameWork = 0.02;       // as far as two steps that do the same may differ

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
          LevelOf(table, [](const StepPart& part) { return part.message_ns; })};
}

// How long the data of a rank's calls take in a step, of the rank with the most; none: no call's data were timed.
std::optional<double> TransferLevel(const StepTable& table) {
  std::vector<double> of_row(table.ranks.size());
  bool any = false;
  for (const StepTransfers& one : table.transfers) {
    if (one.times.empty()) continue;
    any = true;
    std::vector<double> times;
    for (const StepTransfers::Timed& timed : one.times) times.push_back(static_cast<double>(timed.ns));
    const double in_step =
        Median(std::move(times)) * static_cast<double>(one.calls) / static_cast<double>(table.steps());
    for (const std::size_t row : one.rows) of_row[row] += in_step;
  }
  return any ? std::optional(*std::max_element(of_row.begin(), of_row.end())) : std::nullopt;
}

bool SendsMessages(const StepTable& table) {
  return std::any_of(table.messages.begin(), table.messages.end(), [](const auto& one) { return !one.sent.empty(); });
}

// What is no part of blocking calls counts as computation. Of NCCL's that is so only if its kernels were timed, and do
// not take longer.
Regression::Part GrownPart(const StepTable& then, const StepTable& now, const StepLevels& before,
                           const StepLevels& after) {
  using Part = Regression::Part;
  const double added = after.step - before.step;
  // Who waits for requests of collectives alone waits for their data: lateness counts apart. And data that take longer
  // do not end on all ranks at once: these wait for one another without computing longer.
  const bool requests = !SendsMessages(now) && !now.enqueued;
  const double data_grown = after.exposed - before.exposed + (requests ? after.idle - before.idle : 0);
  const double wait_grown = std::max(0.0, after.wait - before.wait);
  if (!now.enqueued && data_grown > wait_grown && data_grown + wait_grown >= kCovers * added) return Part::kExposed;
  const std::pair<double, Part> parts[] = {{after.compute - before.compute, Part::kCompute},
                                           {after.exposed - before.exposed, Part::kExposed},
                                           {after.wait - before.wait, Part::kWait},
                                           {after.idle - before.idle, Part::kIdle}};
  for (const auto& [grown, part] : parts) {
    if (grown < kCovers * added) continue;
    if (part != Part::kCompute || !now.enqueued) return part;
    const std::optional<double> data_before = TransferLevel(then), data_after = TransferLevel(now);
    if (!data_before || !data_after) return Part::kUnknown;
    // Of blocking calls the data are a part of their own already.
    const double data = after.exposed > 0 ? 0 : *data_after - *data_before;
    if (data >= kCovers * added) return Part::kExposed;
    return data <= (1 - kCovers) * added ? Part::kCompute : Part::kSeveral;
  }
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

// Steps [begin, end) alone: their parts and transfers.
StepTable Cut(const StepTable& table, std::size_t begin, std::size_t end) {
  StepTable cut;
  cut.first = table.NumberOf(begin);
  cut.ranks = table.ranks;
  cut.hosts = table.hosts;
  cut.messages = table.messages;
  cut.enqueued = table.enqueued;
  for (const auto& row : table.parts)
    cut.parts.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(begin),
                           row.begin() + static_cast<std::ptrdiff_t>(end));
  for (const StepTransfers& one : table.transfers) {
    StepTransfers own = one;
    std::erase_if(own.times,
                  [&](const StepTransfers::Timed& timed) { return timed.step < begin || timed.step >= end; });
    own.calls = one.calls * (end - begin) / table.steps();
    cut.transfers.push_back(std::move(own));
  }
  return cut;
}

// One value for each step, the usual one where no rank has the step whole.
template <class Value>
std::vector<double> ByEveryStep(const StepTable& table, Value value) {
  const double usual = Median(BySteps(table, value));
  std::vector<double> all;
  for (std::size_t step = 0; step < table.steps(); ++step) {
    std::vector<double> ranks;
    for (const auto& row : table.parts)
      if (row[step].duration_ns > 0) ranks.push_back(static_cast<double>(value(row[step])));
    all.push_back(ranks.empty() ? usual : Median(std::move(ranks)));
  }
  return all;
}

double MedianOf(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  return Median(std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                    values.begin() + static_cast<std::ptrdiff_t>(end)));
}

// So many values, or several in a row, are on the other side of the middle between two levels: it has been there
// before.
bool Crosses(const std::vector<double>& values, std::size_t begin, std::size_t end, double middle, bool above) {
  std::size_t run = 0, all = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const bool crosses = (values[i] > middle) == above;
    run = crosses ? run + 1 : 0;
    all += crosses ? 1u : 0u;
    if (run >= kPhase_steps) return true;
  }
  return static_cast<double>(all) > kMostCrossing * static_cast<double>(end - begin);
}

// Each half of a level is as the other one is: nothing grows little by little.
bool IsSteady(const std::vector<double>& values, std::size_t begin, std::size_t end, double rise) {
  const std::size_t middle = begin + (end - begin) / 2;
  return std::abs(MedianOf(values, middle, end) - MedianOf(values, begin, middle)) < kSteady * rise;
}

bool Differ(double a, double b) { return std::abs(a - b) > kSameWork * std::max(a, b); }

// More data pass in a step, or more tokens: the program does more.
bool WorkChanged(const StepTable& table, std::size_t onset) {
  const std::vector<double> bytes = ByEveryStep(table, [](const StepPart& part) { return part.bytes; });
  if (Differ(MedianOf(bytes, 0, onset), MedianOf(bytes, onset, bytes.size()))) return true;
  const std::vector<double>& work = table.work;
  return !work.empty() && Differ(MedianOf(work, 0, onset), MedianOf(work, onset, work.size()));
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
  found.part = GrownPart(baseline, now, found.before, found.after);
  if (found.part == Regression::Part::kCompute) found.rows = WhoComputesLonger(now, baseline);
  return found;
}

std::optional<Regression> FindRise(const StepTable& table, double least) {
  if (table.steps() < 2 * kFewestSteps) return std::nullopt;
  const std::vector<double> steps = ByEveryStep(table, [](const StepPart& part) { return part.duration_ns; });
  const double usual = std::max(1.0, Median(steps));
  std::vector<double> relative;
  for (const double step : steps) relative.push_back(step / usual - 1);
  const std::size_t onset = RoseAt(relative);
  if (onset < kFewestSteps || steps.size() - onset < kFewestSteps) return std::nullopt;
  const double before = MedianOf(steps, 0, onset), after = MedianOf(steps, onset, steps.size());
  const double rise = after - before, middle = before + rise / 2;
  if (rise < least * before || WorkChanged(table, onset)) return std::nullopt;
  if (Crosses(steps, 0, onset, middle, true) || Crosses(steps, onset, steps.size(), middle, false)) return std::nullopt;
  if (!IsSteady(steps, 0, onset, rise) || !IsSteady(steps, onset, steps.size(), rise)) return std::nullopt;
  std::optional<Regression> found = FindRegression(Cut(table, onset, table.steps()), Cut(table, 0, onset), least);
  if (found) found->onset = onset;
  return found;
}

}  // namespace ncclwatch::diagnosis
