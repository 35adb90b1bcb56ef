#include "analyzer/doctor/report.h"

#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/gpu.h"
#include "analyzer/doctor/checks/machine.h"
#include "analyzer/doctor/checks/network.h"
#include "analyzer/doctor/checks/words.h"
#include "core/model/text.h"
#include "ncclwatch/format/environment.h"
#include "ncclwatch/version.h"
#include "watchdog/settings/redact.h"

namespace ncclwatch::doctor {
namespace {

// What of a rank is compared with that of the others.

// "NCCL version", "kernel", ... as they are on this host; versions of libraries.
std::map<std::string, std::string> VersionsOf(const Machine& machine) {
  std::map<std::string, std::string> facts;
  utsname name{};
  if (uname(&name) == 0) facts["kernel"] = name.release, facts["processor"] = name.machine;
  facts["C library"] = gnu_get_libc_version();
  facts["ncclwatch"] = NCCLWATCH_VERSION;
  if (const auto& gpus = LookAtGpus().gpus; gpus && !gpus->all.empty()) {
    facts["driver"] = gpus->driver;
    facts["GPU"] = gpus->all.front().name;
    facts["GPUs of a host"] = std::to_string(gpus->all.size());
  }
  for (const Check& check : LibraryChecks()) {
    if (check.id != "nccl-library" && check.id != "torch-version" && check.id != "mpi-library") continue;
    const Result result = check.look(machine);
    const std::size_t from = check.id == "nccl-library" ? result.seen.find("NCCL ") : 0, to = result.seen.find(" in /");
    if (result.status != Status::kSkip && from != std::string::npos)
      facts[check.id == "nccl-library"  ? "NCCL"
            : check.id == "mpi-library" ? "MPI"
                                        : "torch"] = result.seen.substr(from, to == std::string::npos ? to : to - from);
  }
  if (const auto release = machine.Read("/etc/os-release"))
    for (const std::string& line : Split(*release, "\n"))
      if (line.starts_with("PRETTY_NAME="))
        facts["system"] = Split(line.substr(12), "\"").empty() ? "" : Split(line.substr(12), "\"").front();
  for (const auto& [interface, mtu] : PacketSizes(machine)) facts["MTU of " + interface] = mtu;
  return facts;
}

// Of NCCL, the network and PyTorch, that have to be the same on all ranks; nothing that holds a secret.
std::map<std::string, std::string> ComparedVariables(const Machine& machine) {
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : machine.environment())
    if (format::ShouldBeAlike(name) && !settings::IsSecretName(name, "")) facts[name] = settings::Redacted(value, "");
  return facts;
}

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
