#include "analyzer/doctor/known_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/words.h"
#include "analyzer/known_bad/known_bad.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::KnownBad;
using analyzer::Versions;

// "NCCL 2.28.9", "torch 2.6.0 ...", "550.54.15".
Versions VersionsOfReport(const Report& report) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"NCCL", "nccl"}, {"torch", "torch"}, {"driver", "driver"}};
  Versions versions;
  for (const auto& [fact, component] : kNames) {
    const auto found = report.versions.find(fact);
    const std::size_t digit =
        found == report.versions.end() ? std::string::npos : found->second.find_first_of("0123456789");
    if (digit != std::string::npos) versions.emplace(component, found->second.substr(digit));
  }
  return versions;
}

Result ResultOf(const Machine& machine, const Report& report, const std::string& id) {
  const auto done = std::find_if(report.checks.begin(), report.checks.end(),
                                 [&](const Outcome& outcome) { return outcome.id == id; });
  if (done != report.checks.end()) return done->result;
  for (const Check& check : ChecksOfOneRank())
    if (check.id == id && !check.active) return check.look(machine);
  return Skip("no such check");
}

bool Shows(const Machine& machine, const Report& report, const KnownBad& entry) {
  return std::any_of(entry.checks.begin(), entry.checks.end(), [&](const std::string& id) {
    const Result result = ResultOf(machine, report, id);
    const bool bad = result.status == Status::kWarn || result.status == Status::kFail;
    return bad && analyzer::Matches(entry.seen, result.seen + " " + result.reason);
  });
}

}  // namespace

Result KnownBadVersions(const Machine& machine, const Report& report) {
  const Versions versions = VersionsOfReport(report);
  if (versions.empty()) return Skip("no version of NCCL, torch or the driver is known");
  const auto entries = analyzer::ReadKnownBad({});
  if (!entries.ok()) return Skip(std::string(entries.status().message()));
  std::vector<std::string> names;
  for (const auto& [component, version] : versions) names.push_back(component + " " + version);
  for (const KnownBad& entry : *entries)
    if (analyzer::HasVersion(entry, versions) && Shows(machine, report, entry))
      return Warn(Joined(names), entry.summary, "read " + entry.report);
  return Pass(Joined(names));
}

}  // namespace ncclwatch::doctor
