#include "analyzer/doctor/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/doctor/checks/words.h"
#include "analyzer/doctor/facts.h"
#include "watchdog/diagnosis/model/text.h"

namespace ncclwatch::doctor {
namespace {

using Json = nlohmann::ordered_json;

// Another rank's word for the same result counts as the same.
void Add(int rank, const Result& result, Finding* merged) {
  if (result.status < merged->result.status) return;
  if (result.status > merged->result.status) *merged = {merged->id, result, {}};
  merged->ranks.push_back(rank);
}

std::string CountText(const JobReport& report) {
  std::vector<int> counts(kStatusNames.size());
  for (const Finding& one : report.checks) ++counts[static_cast<std::size_t>(one.result.status)];
  std::vector<std::string> texts;
  for (const Status status : {Status::kFail, Status::kWarn, Status::kPass, Status::kSkip, Status::kManual})
    if (const int count = counts[static_cast<std::size_t>(status)]; count > 0)
      texts.push_back(fmt::format("{} {}", count, Name(status)));
  return Joined(texts);
}

std::string RowText(const Finding& one, const JobReport& report) {
  const Result& result = one.result;
  std::string text = fmt::format("{:<6} {:<20}", Name(result.status), one.id);
  const bool of_some = !one.ranks.empty() && one.ranks.size() < static_cast<std::size_t>(report.ranks);
  if (of_some) text += " " + diagnosis::Ranks(one.ranks) + ":";
  if (!result.seen.empty()) text += " " + result.seen;
  if (!result.reason.empty()) text += (result.seen.empty() ? " " : ": ") + result.reason;
  text += "\n";
  if (!result.advice.empty()) text += fmt::format("{:27} do: {}\n", "", result.advice);
  return text;
}

}  // namespace

Report ReportOf(const Machine& machine, const std::vector<Finding>& own) {
  Report report{{}, VersionsOf(machine), ComparedVariables(machine)};
  for (const Finding& one : own) report.checks.push_back({one.id, one.result});
  return report;
}

std::vector<Finding> Merge(const Gathered& gathered) {
  std::vector<Finding> merged;
  std::map<std::string, std::size_t> places;
  for (const RankReport& rank : gathered.ranks) {
    for (const auto& [id, result] : rank.report.checks) {
      const auto [place, made] = places.try_emplace(id, merged.size());
      if (made)
        merged.push_back({id, result, {rank.rank}});
      else
        Add(rank.rank, result, &merged[place->second]);
    }
  }
  return merged;
}

Json ToJson(const JobReport& report) {
  Json checks = Json::array(), differences = Json::array();
  for (const Finding& one : report.checks)
    checks.push_back({{"id", one.id},
                      {"status", Name(one.result.status)},
                      {"ranks", one.ranks},
                      {"seen", one.result.seen},
                      {"reason", one.result.reason},
                      {"advice", one.result.advice}});
  for (const Difference& one : report.differences) {
    Json values = Json::array();
    for (const auto& [value, ranks] : one.values) values.push_back({{"value", value}, {"ranks", ranks}});
    differences.push_back({{"what", one.what}, {"values", std::move(values)}});
  }
  return {{"schema", "ncclwatch.doctor/1"},
          {"ranks", report.ranks},
          {"hosts", report.hosts},
          {"checks", std::move(checks)},
          {"differences", std::move(differences)}};
}

std::string ToText(const JobReport& report, bool all) {
  std::string text = fmt::format("{} rank{} on {} host{}: {}\n\n", report.ranks, report.ranks == 1 ? "" : "s",
                                 report.hosts, report.hosts == 1 ? "" : "s", CountText(report));
  for (const Status status : {Status::kFail, Status::kWarn, Status::kManual})
    for (const Finding& one : report.checks)
      if (one.result.status == status) text += RowText(one, report);
  if (!all) {
    text += "\nPASS and SKIP are listed with --all.\n";
    return text;
  }
  for (const Status status : {Status::kPass, Status::kSkip})
    for (const Finding& one : report.checks)
      if (one.result.status == status) text += RowText(one, report);
  return text;
}

bool HasFailed(const JobReport& report) {
  return std::any_of(report.checks.begin(), report.checks.end(),
                     [](const Finding& one) { return one.result.status == Status::kFail; });
}

}  // namespace ncclwatch::doctor
