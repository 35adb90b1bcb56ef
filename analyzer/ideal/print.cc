#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/files/output_file.h"
#include "analyzer/ideal/ideal.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::ideal {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWorthSaying = 1.03;  // the paper attributes no smaller slowdown
constexpr double kMost = 0.5;          // of a slowdown: it is the cause
constexpr double kNearlyAll = 0.8;     // of what the worst ranks cost together: the others add little
constexpr std::size_t kMostRows = 10;  // of a table

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json Rows(const std::vector<Slowdown>& rows, const char* key) {
  Json all = Json::array();
  for (const Slowdown& row : rows)
    all.push_back({{key, row.of.empty() ? Json(row.number) : Json(Printable(row.of))}, {"slowdown", row.slowdown}});
  return all;
}

std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }
std::string StepText(double seconds) { return DurationText(absl::Seconds(seconds)); }

// Kernels have names of hundreds of letters.
std::string Shortened(std::string name) {
  constexpr std::size_t kMostLetters = 60;
  if (name.size() <= kMostLetters) return name;
  return name.substr(0, kMostLetters - 3) + "...";
}

// What costs most, first.
std::vector<Slowdown> Worst(std::vector<Slowdown> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Slowdown& a, const Slowdown& b) { return a.slowdown > b.slowdown; });
  rows.resize(std::min(rows.size(), kMostRows));
  return rows;
}

void AddTo(Table* table, const Result& result, const std::vector<Slowdown>& rows, const char* what) {
  for (const Slowdown& row : Worst(rows))
    table->Add({what, row.of.empty() ? fmt::format("{}", row.number) : Shortened(Printable(row.of)),
                StepText(row.slowdown * result.ideal_s), fmt::format("{:.3f}", row.slowdown)});
}

}  // namespace

std::string Verdict(const Result& result) {
  const double lost = result.actual_s > 0 ? 1 - result.ideal_s / result.actual_s : 0;
  if (result.slowdown() * kWorthSaying < 1)
    return "No conclusion: an ideal step comes out longer than a recorded one. What the ranks wait for cannot be seen "
           "in "
           "these calls, such as messages that only the GPU waits for.";
  if (result.slowdown() < kWorthSaying)
    return fmt::format("Nobody is much slower than those alike: without stragglers a step would take {} instead of {}.",
                       StepText(result.ideal_s), StepText(result.actual_s));
  const std::string all = fmt::format("Without stragglers a step would take {} instead of {} ({} less). ",
                                      StepText(result.ideal_s), StepText(result.actual_s), Percent(lost));
  const double of_one = result.worst_rank_explains.value_or(0), of_few = result.worst_ranks_explain.value_or(0);
  if (of_one >= kMost || (of_few >= kMost && of_one >= kNearlyAll * of_few))
    return all + fmt::format("Rank {} alone costs {} of the difference: look at its machine first.", result.worst_rank,
                             Percent(std::min(1.0, of_one)));
  if (of_few >= kMost)
    return all + fmt::format("Ranks {} together cost {} of the difference: look at their machines first.",
                             diagnosis::RankSet(result.worst_ranks), Percent(std::min(1.0, of_few)));
  if (result.last_stage_explains.value_or(0) >= kMost)
    return all + fmt::format(
                     "The last stage has more work than the others and costs {} of the difference: give it "
                     "fewer layers.",
                     Percent(std::min(1.0, *result.last_stage_explains)));
  return all + fmt::format("No few ranks explain the difference: most is lost in {}, on all ranks.",
                           result.ops.empty() ? "operations" : Printable(result.ops.front().of));
}

nlohmann::ordered_json ToJson(const Result& result) {
  return {{"actual_s", result.actual_s},
          {"ideal_s", result.ideal_s},
          {"slowdown", result.slowdown()},
          {"recorded_s", result.recorded_s},
          {"steps", result.steps},
          {"ops", Rows(result.ops, "op")},
          {"ranks", Rows(result.ranks, "rank")},
          {"stages", Rows(result.stages, "stage")},
          {"ranks_by", result.by_grid ? "row and column" : "rank"},
          {"worst_ranks", result.worst_ranks},
          {"worst_rank", result.worst_rank},
          {"worst_rank_explains", OrNull(result.worst_rank_explains)},
          {"worst_ranks_explain", OrNull(result.worst_ranks_explain)},
          {"last_stage_explains", OrNull(result.last_stage_explains)},
          {"verdict", Verdict(result)},
          {"notes", result.notes}};
}

std::string ToText(const Result& result) {
  std::string text = Verdict(result) + "\n\n";
  Table table({{"IF ONLY THIS STAYS"}, {"AS RECORDED"}, {"STEP", true}, {"SLOWDOWN", true}});
  table.Add({"everything", "", StepText(result.actual_s), fmt::format("{:.3f}", result.slowdown())});
  AddTo(&table, result, result.ops, "operation");
  AddTo(&table, result, result.stages, "stage");
  AddTo(&table, result, result.ranks, "rank");
  table.Add({"nothing", "", StepText(result.ideal_s), "1.000"});
  text += table.Text();
  text += fmt::format("\nMeans over {} {}; as recorded a step took {}.\n", result.steps,
                      result.steps == 1 ? "step" : "steps", StepText(result.recorded_s));
  for (const std::string& note : result.notes) text += "note: " + note + "\n";
  return text;
}

absl::Status WriteTimeline(const Model& model, const std::string& path) {
  Simulation simulation(model);
  simulation.Run([](const Operation&) { return true; });
  std::vector<std::int64_t> begin_of_step(model.steps.size(), 0);
  if (!simulation.chained()) {
    std::vector<std::int64_t> length(model.steps.size(), 0);
    for (std::size_t i = 0; i < model.operations.size(); ++i) {
      std::int64_t& longest = length[model.operations[i].step];
      longest = std::max(longest, simulation.end_ns(i));
    }
    for (std::size_t step = 1; step < length.size(); ++step)
      begin_of_step[step] = begin_of_step[step - 1] + length[step - 1];
  }
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const Worker& worker : model.workers) {
    std::string name = fmt::format("rank {}", worker.rank);
    if (worker.stage >= 0) name += fmt::format(", stage {}", worker.stage);
    text += fmt::format("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"{}\"}}}},\n",
                        worker.rank, name);
  }
  for (std::size_t i = 0; i < model.operations.size(); ++i) {
    const Operation& one = model.operations[i];
    text += fmt::format(
        "{{\"ph\":\"X\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"step\":{}}}}}{}\n",
        Json(Printable(model.names[one.name])).dump(), model.workers[one.worker].rank, one.lane,
        static_cast<double>(begin_of_step[one.step] + simulation.start_ns(i)) / kUs,
        static_cast<double>(simulation.end_ns(i) - simulation.start_ns(i)) / kUs, model.steps[one.step],
        i + 1 == model.operations.size() ? "" : ",");
  }
  return WriteFile(path, text + "]}\n");
}

}  // namespace ncclwatch::analyzer::ideal
