#include "analyzer/compare/verdict.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ncclwatch::compare {
namespace {

constexpr char kStepTime[] = "step_time";

Level LevelOf(const Metric& metric) {
  Level level;
  Samples all;
  for (const Samples& trial : metric.trials) all.insert(all.end(), trial.begin(), trial.end());
  level.n = all.size();
  for (const double value : all) level.mean += value / static_cast<double>(all.size());
  level.median = MedianOf(std::move(all));
  return level;
}

bool ArePositive(const Metric& metric) {
  return std::all_of(metric.trials.begin(), metric.trials.end(), [](const Samples& trial) {
    return std::all_of(trial.begin(), trial.end(), [](double value) { return value > 0; });
  });
}

MetricVerdict VerdictOf(const Compared& one, double tolerance) {
  if (one.better == Better::kUnknown) return MetricVerdict::kReported;
  const Change& change = one.change;
  if (!change.measured) return MetricVerdict::kInconclusive;
  if (change.low > -tolerance && change.high < tolerance) return MetricVerdict::kSame;
  const bool changed = (change.low > 0 || change.high < 0) && std::abs(change.ratio) > tolerance;
  if (!changed) return MetricVerdict::kInconclusive;
  return (change.ratio < 0) == (one.better == Better::kLower) ? MetricVerdict::kBetter : MetricVerdict::kWorse;
}

Better Requested(const Request& request, const std::string& name, Better known) {
  for (const auto& [requested, better] : request.only)
    if (requested == name && better != Better::kUnknown) return better;
  return known;
}

bool Decides(const Request& request, const std::string& name, bool has_step_time) {
  if (request.only.empty()) return has_step_time ? name == kStepTime : true;
  return std::any_of(request.only.begin(), request.only.end(), [&](const auto& one) { return one.first == name; });
}

std::vector<Compared> CompareMetrics(const Side& before, const Side& after, const Request& request,
                                     std::vector<std::string>* notes) {
  std::vector<Compared> all;
  const bool has_step_time = before.metrics.contains(kStepTime) && after.metrics.contains(kStepTime);
  std::vector<std::string> alone;
  for (const auto& [name, metric] : before.metrics) {
    const auto other = after.metrics.find(name);
    if (other == after.metrics.end()) {
      alone.push_back(name);
      continue;
    }
    Compared& one = all.emplace_back(
        Compared{.name = name, .unit = metric.unit, .better = Requested(request, name, metric.better)});
    one.before = LevelOf(metric);
    one.after = LevelOf(other->second);
    one.decides = Decides(request, name, has_step_time);
  }
  for (const auto& [name, metric] : after.metrics)
    if (!before.metrics.contains(name)) alone.push_back(name);
  if (!alone.empty()) notes->push_back(fmt::format("on one side only: {}", fmt::join(alone, ", ")));
  // Bonferroni over all that could be told as a change.
  const double confidence =
      1 -
      kFalseAlarms / std::max(1.0, static_cast<double>(std::count_if(all.begin(), all.end(), [](const Compared& one) {
                                return one.better != Better::kUnknown;
                              })));
  for (Compared& one : all) {
    const Metric &a = before.metrics.at(one.name), &b = after.metrics.at(one.name);
    if (ArePositive(a) && ArePositive(b))
      one.change = ChangeOf(a.trials, b.trials, confidence);
    else
      one.change.ratio = one.before.median != 0 ? one.after.median / one.before.median - 1 : 0;
    one.verdict = VerdictOf(one, request.tolerance);
  }
  std::stable_sort(all.begin(), all.end(), [](const Compared& a, const Compared& b) { return a.decides > b.decides; });
  return all;
}

Verdict OfMetrics(const std::vector<Compared>& metrics) {
  bool better = false, same = true, any = false;
  for (const Compared& one : metrics) {
    if (!one.decides || one.verdict == MetricVerdict::kReported) continue;
    any = true;
    if (one.verdict == MetricVerdict::kWorse) return Verdict::kRegression;
    better = better || one.verdict == MetricVerdict::kBetter;
    same = same && one.verdict == MetricVerdict::kSame;
  }
  if (better) return Verdict::kImprovement;
  return any && same ? Verdict::kUnchanged : Verdict::kInconclusive;
}

Verdict Overall(const Comparison& comparison) {
  if (comparison.problem) {
    if (comparison.problem->before) return comparison.problem->after ? Verdict::kNotFixed : Verdict::kFixed;
    if (comparison.problem->after) return Verdict::kRegression;
  }
  return OfMetrics(comparison.metrics);
}

void CompareEnvironments(const Side& before, const Side& after, Comparison* comparison) {
  const auto text = [](const Side& side, const std::string& what) {
    const auto found = side.environment.find(what);
    return found == side.environment.end() ? std::string() : fmt::format("{}", fmt::join(found->second, ", "));
  };
  std::map<std::string, std::vector<std::string>> all = before.environment;
  all.insert(after.environment.begin(), after.environment.end());
  for (const auto& [what, values] : all) {
    const std::string a = text(before, what), b = text(after, what);
    if (a != b && what != "master") comparison->environment.push_back({what, a, b});  // a port is drawn for each run
  }
}

}  // namespace

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFixed: return "fixed";
    case Verdict::kNotFixed: return "not_fixed";
    case Verdict::kRegression: return "regression";
    case Verdict::kImprovement: return "improvement";
    case Verdict::kUnchanged: return "unchanged";
    case Verdict::kInconclusive: break;
  }
  return "inconclusive";
}

const char* Name(MetricVerdict verdict) {
  switch (verdict) {
    case MetricVerdict::kBetter: return "better";
    case MetricVerdict::kWorse: return "worse";
    case MetricVerdict::kSame: return "same";
    case MetricVerdict::kInconclusive:
    case MetricVerdict::kReported: break;
  }
  return "inconclusive";
}

Comparison Compare(const Side& before, const Side& after, const Request& request, std::optional<Outcome> problem) {
  Comparison comparison;
  comparison.problem = std::move(problem);
  comparison.metrics = CompareMetrics(before, after, request, &comparison.notes);
  comparison.verdict = Overall(comparison);
  CompareEnvironments(before, after, &comparison);
  comparison.notes.insert(comparison.notes.end(), before.notes.begin(), before.notes.end());
  comparison.notes.insert(comparison.notes.end(), after.notes.begin(), after.notes.end());
  const auto measured = [](const Compared& one) { return one.change.measured; };
  if (before.paths.size() == 1 && after.paths.size() == 1 &&
      std::any_of(comparison.metrics.begin(), comparison.metrics.end(), measured))
    comparison.notes.emplace_back(
        "one run a side: the intervals only cover steps within a run, not differences between runs; give several: "
        "A1,A2,A3 B1,B2,B3");
  return comparison;
}

std::optional<Outcome> OutcomeOfFindings(const Side& before, const Side& after) {
  if (before.problems.empty()) return std::nullopt;
  const Problem& first = before.problems.front();
  const bool still = std::any_of(after.problems.begin(), after.problems.end(),
                                 [&](const Problem& one) { return one.kind == first.kind; });
  return Outcome{true, still, fmt::format("{}: {}", first.kind, first.summary)};
}

}  // namespace ncclwatch::compare
