#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/steps/breakdown.h"
#include "core/model/text.h"
#include "core/slow/robust.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;
using RankedStep = std::pair<int, const RankStep*>;  // rank
using Member = std::int64_t TimeParts::*;

std::map<std::int64_t, std::vector<RankedStep>> StepsByNumber(const Breakdown& breakdown) {
  std::map<std::int64_t, std::vector<RankedStep>> steps;
  for (const RankBreakdown& own : breakdown.ranks)
    for (const RankStep& step : own.steps) steps[step.number].emplace_back(own.rank, &step);
  return steps;
}

std::int64_t MedianOf(const std::vector<RankedStep>& ranks, Member part) {
  std::vector<std::int64_t> values;
  for (const auto& [rank, step] : ranks) values.push_back(step->parts.*part);
  return diagnosis::Median(std::move(values));
}

std::int64_t FirstBegan(const std::vector<RankedStep>& ranks) {
  std::int64_t began = INT64_MAX;
  for (const auto& [rank, step] : ranks) began = std::min(began, step->began_ns);
  return began;
}

double Share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

Json PartsJson(int rank, const TimeParts& parts) {
  return {
      {"rank", rank},
      {"duration_s", InSeconds(parts.duration_ns)},
      {"compute_s", InSeconds(parts.compute_ns)},
      {"exposed_s", InSeconds(parts.exposed_ns)},
      {"wait_s", InSeconds(parts.wait_ns)},
      {"idle_s", InSeconds(parts.idle_ns)},
      {"copy_s", InSeconds(parts.copy_ns)},
      {"communication_s", InSeconds(parts.communication_ns)},
      {"overlap", parts.communication_ns > 0 ? Json(Share(parts.overlap_ns, parts.communication_ns)) : Json(nullptr)},
      {"late_s", InSeconds(parts.late_ns)}};
}

std::string InText(std::int64_t ns) { return DurationText(absl::Nanoseconds(ns)); }

std::string Percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * Share(part, whole)) : "-";
}

std::string StepsTable(const Breakdown& breakdown, std::size_t most) {
  Table table({{"STEP", true},
               {"BEGAN"},
               {"DURATION", true},
               {"COMPUTE", true},
               {"EXPOSED", true},
               {"WAIT", true},
               {"COPY", true},
               {"IDLE", true},
               {"LAST", true},
               {"LATE", true}});
  const auto steps = StepsByNumber(breakdown);
  std::size_t left_out = most == 0 || most >= steps.size() ? 0 : steps.size() - most;
  const bool all = left_out == 0;
  for (const auto& [number, ranks] : steps) {
    if (left_out > 0 && left_out-- > 0) continue;
    const auto last = std::max_element(ranks.begin(), ranks.end(), [](const RankedStep& a, const RankedStep& b) {
      return a.second->parts.late_ns < b.second->parts.late_ns;
    });
    const std::int64_t late = last->second->parts.late_ns;
    std::vector<std::string> cells{fmt::format("{}", number), ClockText(absl::FromUnixNanos(FirstBegan(ranks)))};
    for (const Member part : {&TimeParts::duration_ns, &TimeParts::compute_ns, &TimeParts::exposed_ns,
                              &TimeParts::wait_ns, &TimeParts::copy_ns, &TimeParts::idle_ns})
      cells.push_back(InText(MedianOf(ranks, part)));
    cells.push_back(late > 0 ? fmt::format("{}", last->first) : "-");
    cells.push_back(late > 0 ? InText(late) : "-");
    table.Add(std::move(cells));
  }
  std::string text = table.Text();
  if (!all) text += fmt::format("the newest {} of {} steps: --top 0 shows all\n", most, steps.size());
  return text;
}

std::string RanksTable(const Breakdown& breakdown) {
  Table table({{"RANK", true},
               {"DURATION", true},
               {"COMPUTE", true},
               {"EXPOSED", true},
               {"WAIT", true},
               {"COPY", true},
               {"IDLE", true},
               {"OVERLAP", true},
               {"LATE", true}});
  for (const RankBreakdown& own : breakdown.ranks) {
    const TimeParts& parts = own.whole;
    table.Add({fmt::format("{}", own.rank), InText(parts.duration_ns), Percent(parts.compute_ns, parts.duration_ns),
               Percent(parts.exposed_ns, parts.duration_ns), Percent(parts.wait_ns, parts.duration_ns),
               Percent(parts.copy_ns, parts.duration_ns), Percent(parts.idle_ns, parts.duration_ns),
               Percent(parts.overlap_ns, parts.communication_ns), InText(parts.late_ns)});
  }
  return table.Text();
}

}  // namespace

Json StepsJson(const Breakdown& breakdown) {
  Json all = Json::array();
  for (const auto& [number, ranks] : StepsByNumber(breakdown)) {
    Json parts = Json::array();
    for (const auto& [rank, step] : ranks) parts.push_back(PartsJson(rank, step->parts));
    all.push_back({{"step", number},
                   {"began", diagnosis::UtcTime(FirstBegan(ranks))},
                   {"duration_s", InSeconds(MedianOf(ranks, &TimeParts::duration_ns))},
                   {"ranks", std::move(parts)}});
  }
  return all;
}

Json RanksJson(const Breakdown& breakdown) {
  Json all = Json::array();
  for (const RankBreakdown& own : breakdown.ranks) {
    const TimeParts& parts = own.whole;
    Json one = PartsJson(own.rank, parts);
    one["shares"] = {{"compute", Share(parts.compute_ns, parts.duration_ns)},
                     {"exposed", Share(parts.exposed_ns, parts.duration_ns)},
                     {"wait", Share(parts.wait_ns, parts.duration_ns)},
                     {"copy", Share(parts.copy_ns, parts.duration_ns)},
                     {"idle", Share(parts.idle_ns, parts.duration_ns)}};
    all.push_back(std::move(one));
  }
  return all;
}

std::string BreakdownText(const Breakdown& breakdown, std::size_t most) {
  return StepsTable(breakdown, most) + "\n" + RanksTable(breakdown);
}

}  // namespace ncclwatch::analyzer
