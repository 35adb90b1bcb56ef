#include "analyzer/top/json.h"

#include <nlohmann/json.hpp>

#include <absl/time/clock.h>

#include "core/model/text.h"
#include "core/report/render.h"

namespace ncclwatch::analyzer::top {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json RankOrNull(int rank) { return rank < 0 ? Json() : Json(rank); }

void AddRates(const std::optional<Rates>& rates, Json* to) {
  (*to)["calls_per_s"] = rates ? Json(rates->calls_per_s) : Json();
  (*to)["bytes_per_s"] = rates ? Json(rates->bytes_per_s) : Json();
}

Json StepOf(const Assessment& assessment) {
  if (!assessment.step) return {};
  const StepState& step = *assessment.step;
  return {{"step_s", step.step_s},
          {"compute_s", step.compute_s},
          {"exposed_s", step.exposed_s},
          {"wait_s", step.wait_s},
          {"idle_s", step.idle_s}};
}

Json RanksOf(const Job& job) {
  Json ranks = Json::array();
  for (const Process& process : job.processes) {
    const auto step = job.assessment.steps.find(process.rank);
    Json rank{{"rank", RankOrNull(process.rank)},
              {"host", process.host},
              {"pid", process.pid},
              {"alive", process.alive},
              {"calls", process.calls},
              {"step", step == job.assessment.steps.end() ? Json() : Json(step->second)}};
    AddRates(process.rates, &rank);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

Json CommunicatorsOf(const Job& job) {
  Json communicators = Json::array();
  for (const Communicator& one : job.communicators)
    communicators.push_back({{"id", diagnosis::Hex16(one.id)},
                             {"label", one.label},
                             {"size", one.size},
                             {"seen", one.seen},
                             {"position", OrNull(one.position)},
                             {"last", one.last},
                             {"behind", one.behind},
                             {"late_s", one.late_s}});
  return communicators;
}

Json MembersOf(const Job& job) {
  Json members = Json::array();
  for (const Member& one : job.members) {
    if (one.size == 0) continue;
    Json member{{"rank", RankOrNull(job.processes[one.process].rank)},
                {"communicator", diagnosis::Hex16(one.communicator)},
                {"communicator_rank", one.rank},
                {"position", OrNull(one.position)},
                {"behind", one.behind},
                {"op", one.op.empty() ? Json() : Json(one.op)},
                {"state", one.state.empty() ? Json() : Json(one.state)},
                {"bytes", OrNull(one.bytes)},
                {"since_s", one.op.empty() ? Json() : Json(one.since_s)}};
    AddRates(one.rates, &member);
    members.push_back(std::move(member));
  }
  return members;
}

Json FindingsOf(const Job& job) {
  Json findings = Json::array();
  for (const diagnosis::Finding& finding : job.assessment.findings)
    findings.push_back(Json::parse(diagnosis::ToJsonLine(finding)));
  return findings;
}

}  // namespace

Json ToJson(const Job& job) {
  return {{"schema", "ncclwatch.top/1"},
          {"at", diagnosis::UtcTime(absl::ToUnixNanos(absl::Now()))},
          {"run_directory", job.directory},
          {"job", job.name},
          {"attempt", job.attempt},
          {"state", job.state},
          {"alive", job.alive},
          {"expected", job.expected},
          {"not_shown", job.not_shown},
          {"unreadable", job.unreadable},
          {"step", StepOf(job.assessment)},
          {"ranks", RanksOf(job)},
          {"communicators", CommunicatorsOf(job)},
          {"members", MembersOf(job)},
          {"findings", FindingsOf(job)}};
}

}  // namespace ncclwatch::analyzer::top
