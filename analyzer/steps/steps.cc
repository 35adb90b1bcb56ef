#include "analyzer/steps/steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/recording/whole.h"
#include "core/model/text.h"
#include "core/slow/robust.h"
#include "core/view/from_boxes.h"
#include "core/view/view.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using diagnosis::StepPart;
using diagnosis::StepTable;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostCallsOfSteps = 10'000'000;

// Of the ranks that have the step.
std::int64_t Median(const StepTable& table, std::size_t step, std::int64_t (*part)(const StepPart&)) {
  std::vector<std::int64_t> values;
  for (const auto& row : table.parts)
    if (row[step].duration_ns > 0) values.push_back(part(row[step]));
  return diagnosis::Median(std::move(values));
}

std::int64_t Duration(const StepPart& part) { return part.duration_ns; }
std::int64_t Compute(const StepPart& part) { return part.compute_ns(); }
std::int64_t Exposed(const StepPart& part) { return part.exposed_ns; }
std::int64_t Wait(const StepPart& part) { return part.waiting_ns(); }

std::int64_t BeganNs(const JobSteps& steps, std::size_t step) {
  std::int64_t began = INT64_MAX;
  for (const auto& row : steps.table.parts)
    if (row[step].duration_ns > 0) began = std::min(began, row[step].began_ns);
  return began == INT64_MAX ? 0 : began + steps.realtime_ns;
}

// Who was waited for, and how much later than the middle of the ranks it came.
std::pair<int, std::int64_t> Last(const StepTable& table, std::size_t step) {
  std::pair<int, std::int64_t> last(-1, 0);
  for (std::size_t row = 0; row < table.parts.size(); ++row)
    if (table.parts[row][step].late_ns > last.second) last = {table.ranks[row], table.parts[row][step].late_ns};
  return last;
}

std::string Text(std::int64_t ns) { return DurationText(absl::Nanoseconds(ns)); }

}  // namespace

absl::StatusOr<JobSteps> StepsOf(const Recording& recording) {
  auto boxes = WholeBoxes(recording, kMostCallsOfSteps);
  if (!boxes.ok()) return boxes.status();
  return StepsOf(*std::move(boxes));
}

absl::StatusOr<JobSteps> StepsOf(std::vector<reader::BoxImage> boxes) {
  const diagnosis::Snapshot snapshot = diagnosis::FromBoxes(std::move(boxes));
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  JobSteps steps{diagnosis::MakeStepTable(view, SIZE_MAX), view.realtime_minus_monotonic_ns};
  if (steps.table.steps() == 0) return absl::NotFoundError("no steps: its ranks repeat no calls together");
  return steps;
}

std::optional<StepRange> ParseSteps(const std::string& text) {
  StepRange range;
  const std::size_t dots = text.find("..");
  const std::string first = text.substr(0, dots), last = dots == std::string::npos ? first : text.substr(dots + 2);
  if (first.empty() && last.empty()) return std::nullopt;
  if (!first.empty() && !ParseNumber(first, &range.first)) return std::nullopt;
  if (!last.empty() && !ParseNumber(last, &range.last)) return std::nullopt;
  return range.first <= range.last ? std::optional(range) : std::nullopt;
}

absl::StatusOr<CallRanges> CallsOfSteps(const Recording& recording, StepRange range) {
  const auto steps = StepsOf(recording);
  if (!steps.ok()) return steps.status();
  const StepTable& table = steps->table;
  CallRanges calls;
  for (std::size_t row = 0; row < table.parts.size(); ++row)
    for (std::size_t step = 0; step < table.steps(); ++step) {
      const StepPart& part = table.parts[row][step];
      const std::uint64_t number = table.first + step;
      if (number < range.first || number > range.last || part.duration_ns == 0) continue;
      auto& [first, end] = calls.try_emplace(table.ranks[row], part.first_slot, part.end_slot).first->second;
      first = std::min(first, part.first_slot);
      end = std::max(end, part.end_slot);
    }
  if (calls.empty())
    return absl::NotFoundError(
        fmt::format("has none of these steps: there are {} to {}", table.first, table.first + table.steps() - 1));
  return calls;
}

std::vector<StepSummary> SummariesOf(const JobSteps& steps) {
  const StepTable& table = steps.table;
  std::vector<StepSummary> all;
  for (std::size_t step = 0; step < table.steps(); ++step) {
    const std::int64_t began = BeganNs(steps, step);
    if (began == 0) continue;
    const auto [last, late] = Last(table, step);
    all.push_back({table.first + step, began, Median(table, step, Duration), Median(table, step, Compute),
                   Median(table, step, Exposed), Median(table, step, Wait), last, late});
  }
  return all;
}

std::map<std::uint64_t, double> DurationsOf(const JobSteps& steps) {
  std::map<std::uint64_t, double> durations;
  for (std::size_t step = 0; step < steps.table.steps(); ++step)
    if (const std::int64_t ns = Median(steps.table, step, Duration); ns > 0)
      durations[steps.table.first + step] = InSeconds(ns);
  return durations;
}

Json StepsJson(const JobSteps& steps) {
  const StepTable& table = steps.table;
  Json all = Json::array();
  for (std::size_t step = 0; step < table.steps(); ++step) {
    Json ranks = Json::array();
    for (std::size_t row = 0; row < table.parts.size(); ++row) {
      const StepPart& part = table.parts[row][step];
      if (part.duration_ns == 0) continue;
      ranks.push_back({{"rank", table.ranks[row]},
                       {"duration_s", InSeconds(part.duration_ns)},
                       {"compute_s", InSeconds(part.compute_ns())},
                       {"exposed_s", InSeconds(part.exposed_ns)},
                       {"wait_s", InSeconds(part.waiting_ns())},
                       {"idle_s", 0.0},
                       {"late_s", InSeconds(part.late_ns)}});
    }
    const std::int64_t began = BeganNs(steps, step);
    all.push_back({{"step", table.first + step},
                   {"began", began == 0 ? Json(nullptr) : Json(diagnosis::UtcTime(began))},
                   {"duration_s", InSeconds(Median(table, step, Duration))},
                   {"ranks", std::move(ranks)}});
  }
  return all;
}

std::string StepsText(const JobSteps& steps, std::size_t most) {
  const StepTable& table = steps.table;
  Table text({{"STEP", true},
              {"BEGAN"},
              {"DURATION", true},
              {"COMPUTE", true},
              {"EXPOSED", true},
              {"WAIT", true},
              {"LAST", true},
              {"LATE", true}});
  const std::vector<StepSummary> all = SummariesOf(steps);
  const std::size_t first = most == 0 || most >= table.steps() ? 0 : table.steps() - most;
  for (const StepSummary& one : all) {
    if (one.number < table.first + first) continue;
    text.Add({fmt::format("{}", one.number), ClockText(absl::FromUnixNanos(one.began_ns)), Text(one.duration_ns),
              Text(one.compute_ns), Text(one.exposed_ns), Text(one.wait_ns),
              one.last < 0 ? "-" : fmt::format("{}", one.last), one.last < 0 ? "-" : Text(one.late_ns)});
  }
  std::string out = text.Text();
  if (first > 0) out += fmt::format("the newest {} of {} steps: --top 0 shows all\n", most, table.steps());
  return out;
}

}  // namespace ncclwatch::analyzer
