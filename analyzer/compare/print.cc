#include "analyzer/compare/print.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <map>
#include <utility>

#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/recording/recording.h"
#include "analyzer/trace/facts.h"
#include "core/text/printable.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::compare {
namespace {

using analyzer::Piece;
using analyzer::ProcessRecording;
using analyzer::Recording;

// Looking whether something is there depends on time: how often is no difference.
bool IsPoll(const reader::Call& call) { return (call.flags & format::kPolls) != 0; }

class Calls {
 public:
  explicit Calls(const ProcessRecording& process) : pieces_(process) {}
  // Null: there is no more.
  const reader::Call* Next() {
    while (true) {
      for (; at_ < piece_.calls.size(); ++at_)
        if (!IsPoll(piece_.calls[at_])) return &piece_.calls[at_++];
      at_ = 0;
      if (!pieces_.Next(&piece_, &failures_)) return nullptr;
    }
  }

 private:
  analyzer::PieceReader pieces_;
  std::vector<reader::Failure> failures_;
  Piece piece_;
  std::size_t at_ = 0;
};

bool AreAlike(const reader::Call& a, const reader::Call& b) {
  return a.function == b.function && a.count == b.count && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.root == b.root;
}

std::string TextOf(const reader::Call* call) {
  if (!call) return "";
  std::string text = analyzer::OpText(call->function);
  if (call->count > 0) text += fmt::format(", {} {}", call->count, analyzer::DtypeText(call->dtype));
  if (const std::string reduction = analyzer::ReductionText(call->reduction); !reduction.empty())
    text += ", " + reduction;
  if (call->root != format::kNoRank) text += fmt::format(", root or peer {}", call->root);
  return text;
}

std::map<int, const ProcessRecording*> ByRank(const Recording& recording) {
  std::map<int, const ProcessRecording*> all;
  for (const ProcessRecording& process : recording.processes())
    if (process.rank() >= 0) all.try_emplace(process.rank(), &process);
  return all;
}

std::optional<FirstDifference> InRank(int rank, const ProcessRecording& before, const ProcessRecording& after) {
  Calls a(before), b(after);
  for (std::uint64_t number = 0;; ++number) {
    const reader::Call *x = a.Next(), *y = b.Next();
    if (!x && !y) return std::nullopt;
    if (x && y && AreAlike(*x, *y)) continue;
    return FirstDifference{rank, number, TextOf(x), TextOf(y)};
  }
}

using Json = nlohmann::ordered_json;

std::string LevelText(const Level& level, const std::string& unit) {
  if (unit == "s") return analyzer::DurationText(absl::Seconds(level.median));
  return fmt::format("{:.4g}{}{}", level.median, unit.empty() ? "" : " ", unit);
}

std::string PercentText(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string IntervalText(const Change& change) {
  return change.measured ? fmt::format("[{:+.1f}, {:+.1f}] %", 100 * change.low, 100 * change.high) : "too few values";
}

std::string MetricTable(const Comparison& comparison, bool deciding) {
  analyzer::Table table({{deciding ? "METRIC" : "BESIDE IT"},
                         {"BEFORE", true},
                         {"AFTER", true},
                         {"CHANGE", true},
                         {"INTERVAL", true},
                         {""}});
  for (const Compared& one : comparison.metrics)
    if (one.decides == deciding)
      table.Add({Printable(one.name), LevelText(one.before, one.unit), LevelText(one.after, one.unit),
                 PercentText(one.change.ratio), IntervalText(one.change),
                 one.verdict == MetricVerdict::kReported ? "(which way is better is not known: --metric NAME:lower)"
                                                         : Name(one.verdict)});
  return table.empty() ? "" : table.Text() + "\n";
}

Json LevelJson(const Level& level) { return {{"n", level.n}, {"median", level.median}, {"mean", level.mean}}; }

Json BetterJson(Better better) {
  if (better == Better::kUnknown) return nullptr;
  return better == Better::kLower ? "lower" : "higher";
}

}  // namespace

std::optional<FirstDifference> FindFirstDifference(const std::string& before, const std::string& after,
                                                   std::string* why_not) {
  const auto a = analyzer::Locate({before}), b = analyzer::Locate({after});
  if (!a.ok() || !b.ok()) return std::nullopt;
  const Recording first = Recording::Open(a->paths), second = Recording::Open(b->paths);
  const auto ranks = ByRank(first), others = ByRank(second);
  std::optional<FirstDifference> found;
  for (const auto& [rank, process] : ranks) {
    const auto other = others.find(rank);
    if (other == others.end()) continue;
    if (process->lost_calls() > 0 || other->second->lost_calls() > 0) {
      *why_not =
          "the first difference is not looked for: calls of a run are lost (record it: `ncclwatch run --record DIR`)";
      return std::nullopt;
    }
    const auto one = InRank(rank, *process, *other->second);
    if (one && (!found || one->call < found->call)) found = one;
  }
  return found;
}

std::string ToText(const Comparison& comparison, const std::optional<FirstDifference>& first) {
  std::string text = fmt::format("{}\n\n", Name(comparison.verdict));
  if (const auto& problem = comparison.problem)
    text += fmt::format("The problem {} before and {} after: {}\n\n", problem->before ? "shows" : "does not show",
                        problem->after ? "shows" : "does not show", Printable(problem->what));
  text += MetricTable(comparison, true) + MetricTable(comparison, false);
  if (first)
    text +=
        fmt::format("first difference: call {} of rank {}: {}, then {}\n", first->call, first->rank,
                    first->before.empty() ? "no call" : first->before, first->after.empty() ? "no call" : first->after);
  for (const auto& one : comparison.environment)
    text += fmt::format("differs: {}: {}, then {}\n", Printable(one.what), Printable(one.before), Printable(one.after));
  for (const std::string& note : comparison.notes) text += fmt::format("note: {}\n", Printable(note));
  return text;
}

Json ToJson(const Comparison& comparison, const std::optional<FirstDifference>& first) {
  Json metrics = Json::array(), environment = Json::array();
  for (const Compared& one : comparison.metrics) {
    const Change& change = one.change;
    metrics.push_back({{"name", Printable(one.name)},
                       {"unit", one.unit},
                       {"better", BetterJson(one.better)},
                       {"before", LevelJson(one.before)},
                       {"after", LevelJson(one.after)},
                       {"change", change.ratio},
                       {"interval", change.measured ? Json::array({change.low, change.high}) : Json(nullptr)},
                       {"between_trials", change.between_trials},
                       {"decides", one.decides},
                       {"verdict", Name(one.verdict)}});
  }
  for (const auto& one : comparison.environment)
    environment.push_back(
        {{"what", Printable(one.what)}, {"before", Printable(one.before)}, {"after", Printable(one.after)}});
  Json json = {{"schema", "ncclwatch.compare/1"}, {"verdict", Name(comparison.verdict)},
               {"metrics", std::move(metrics)},   {"problem", nullptr},
               {"first_difference", nullptr},     {"environment", std::move(environment)},
               {"notes", comparison.notes}};
  if (comparison.problem)
    json["problem"] = {{"before", comparison.problem->before},
                       {"after", comparison.problem->after},
                       {"what", Printable(comparison.problem->what)}};
  if (first)
    json["first_difference"] = {
        {"rank", first->rank}, {"call", first->call}, {"before", first->before}, {"after", first->after}};
  return json;
}

}  // namespace ncclwatch::compare
