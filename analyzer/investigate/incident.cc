#include "analyzer/investigate/incident.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/investigate/words.h"
#include "core/model/text.h"
#include "core/report/advice.h"

namespace ncclwatch::investigate {
namespace {

using analyzer::TriageFinding;
using diagnosis::Finding;
using diagnosis::Kind;

Class ClassOf(const Material& material) {
  if (const Finding* const root = RootFinding(material)) {
    if (IsOfNumbers(root->kind)) return Class::kNumbers;
    if (IsSlow(root->kind)) return Class::kSlow;
    const bool failed =
        root->kind == Kind::kLibraryError || root->kind == Kind::kOutOfMemory || root->kind == Kind::kInvalidArgument;
    return failed ? Class::kFailure : Class::kHang;
  }
  return FirstCause(material) || (material.triage && material.triage->unknown) ? Class::kFailure : Class::kHealthy;
}

// ---- what the other sections say
// --------------------------------------------------------------------------------------

std::vector<Moment> TimelineOf(const Material& material) {
  std::vector<Moment> moments;
  if (material.run) {
    const Run& run = *material.run;
    if (run.began != absl::InfinitePast())
      moments.push_back({run.began, fmt::format("first call that is recorded, {} ranks on {}", run.diagnosis.world_size,
                                                diagnosis::Plural(run.diagnosis.hosts.size(), "host"))});
    for (const Finding& finding : run.diagnosis.findings) {
      if (finding.began_at_ns > 0)
        moments.push_back(
            {absl::FromUnixNanos(finding.began_at_ns), fmt::format("{} begins", diagnosis::Name(finding.kind))});
      if (finding.detected_at_ns > finding.began_at_ns && !IsSlow(finding.kind))
        moments.push_back(
            {absl::FromUnixNanos(finding.detected_at_ns), fmt::format("{} is found", diagnosis::Name(finding.kind))});
    }
    moments.push_back({run.ended, "last sign of life"});
  }
  const JobEvent* checkpoint = nullptr;
  for (const JobEvent& event : material.events)
    if (event.type == "checkpoint") checkpoint = &event;
  if (checkpoint)
    moments.push_back(
        {checkpoint->at,
         fmt::format("last checkpoint{}", checkpoint->step ? fmt::format(", step {}", *checkpoint->step) : "")});
  if (material.triage) {
    const auto add = [&](const TriageFinding& reported, const char* role) {
      if (reported.first.at)
        moments.push_back({*reported.first.at, fmt::format("{} ({}, {}): {}", reported.rule->id, role,
                                                           WhoseText(reported), Place(reported))});
    };
    for (const TriageFinding& reported : material.triage->causes) add(reported, "cause");
    for (const TriageFinding& reported : material.triage->echoes) add(reported, "echo");
    if (!material.triage->confirmations.empty()) add(material.triage->confirmations.front(), "confirmation");
    for (const analyzer::Silent& silent : material.triage->silent)
      moments.push_back({silent.at, fmt::format("rank {} writes its last line, {}:{}", silent.rank,
                                                     silent.file, silent.line)});
  }
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) { return a.at < b.at; });
  return moments;
}

std::vector<std::string> TriageSection(const Material& material, Class kind) {
  std::vector<std::string> lines = {fmt::format("Class: {}.", Name(kind))};
  if (material.run) {
    const diagnosis::Diagnosis& all = material.run->diagnosis;
    lines.push_back(
        all.findings.empty()
            ? "The black boxes show no fault."
            : fmt::format("The black boxes show {}: {}.", diagnosis::Plural(all.findings.size(), "finding"), [&] {
                std::vector<std::string> kinds;
                for (const Finding& finding : all.findings)
                  kinds.push_back(
                      fmt::format("{} ({})", diagnosis::Name(finding.kind), diagnosis::Name(finding.certainty)));
                return absl::StrJoin(kinds, ", ");
              }()));
  }
  if (!material.triage) {
    lines.emplace_back("Logs: none were given.");
  } else if (const TriageFinding* const cause = FirstCause(material)) {
    lines.push_back(fmt::format("The logs ({} files) name first: {} ({}), {}.", material.log_files, cause->rule->id,
                                analyzer::Name(cause->confidence), WhoseText(*cause)));
    if (const std::size_t count = material.triage->echoes.size(); count > 0)
      lines.push_back(fmt::format("{} of message {} from it.", diagnosis::Plural(count, "kind"),
                                  count == 1 ? "follows" : "follow"));
  } else {
    lines.push_back(fmt::format("The logs ({} files) name {}.", material.log_files,
                                material.triage->unknown ? "a failure that no rule knows" : "no failure"));
  }
  return lines;
}

std::vector<std::string> LocalizationOf(const Material& material) {
  std::vector<std::string> lines;
  const Finding* const root = RootFinding(material);
  if (!root) {
    if (const TriageFinding* const cause = FirstCause(material)) {
      lines.push_back(fmt::format("{}.", diagnosis::Capital(WhoseText(*cause))));
      if (!cause->first.host.empty()) lines.push_back(fmt::format("Host {}.", cause->first.host));
      for (const auto& [name, value] : cause->first.fields)
        if (name == "gpu" && !value.empty()) lines.push_back(fmt::format("GPU {}.", value));
    }
    return lines;
  }
  constexpr std::size_t kFew = 4;
  if (root->culprits.empty()) lines.emplace_back("No rank alone: all are the same.");
  if (root->culprits.size() > kFew)
    lines.push_back(fmt::format("{}.", diagnosis::Capital(diagnosis::Ranks(root->culprits))));
  for (const diagnosis::Culprit& culprit : root->culprit_details) {
    if (root->culprits.size() > kFew) break;
    std::string text = fmt::format("Rank {}: host {}", culprit.rank, culprit.host);
    if (culprit.node != culprit.host && !culprit.node.empty()) text += fmt::format(" (node {})", culprit.node);
    if (culprit.pid) text += fmt::format(", pid {}", *culprit.pid);
    if (culprit.gpu) text += fmt::format(", GPU {} {}", culprit.gpu->index, culprit.gpu->uuid);
    lines.push_back(text + ".");
  }
  const diagnosis::SharedBy& shared = root->shared_by;
  if (!shared.switch_name.empty())
    lines.push_back(fmt::format("They share switch {}, and nobody else does.", shared.switch_name));
  else if (!shared.hosts.empty())
    lines.push_back(fmt::format("They are all ranks of {}, and no others.", absl::StrJoin(shared.hosts, ", ")));
  if (root->communicator)
    lines.push_back(fmt::format(
        "Communicator {} of {} ranks{}.",
        root->communicator->label.empty() ? diagnosis::Hex16(root->communicator->id) : root->communicator->label,
        root->communicator->size, root->position ? fmt::format(", position {}", *root->position) : ""));
  if (root->step)
    lines.push_back(
        fmt::format("Step {}{}.", root->step->number,
                    root->step->call ? fmt::format(", call {} of {}", *root->step->call, root->step->calls) : ""));
  return lines;
}

void AddActions(const Material& material, Incident* incident) {
  const auto add = [](const std::string& step, std::vector<std::string>* to) {
    if (std::find(to->begin(), to->end(), step) == to->end()) to->push_back(step);
  };
  if (const Finding* const root = RootFinding(material)) {
    for (const std::string& step : root->next_steps)
      if (step != diagnosis::ForGood(root->kind)) add(diagnosis::Capital(step), &incident->now);
    add(diagnosis::Capital(std::string(diagnosis::Advice(root->kind))), &incident->for_good);
  }
  if (const TriageFinding* const cause = FirstCause(material)) {
    for (const std::string& step : cause->rule->now) add(diagnosis::Capital(step), &incident->now);
    for (const std::string& step : cause->rule->for_good) add(diagnosis::Capital(step), &incident->for_good);
  }
  if (incident->kind == Class::kSlow)
    add("Verify: `ncclwatch compare BEFORE AFTER` with a recording from before and one from after the change",
        &incident->now);
  else if (incident->kind != Class::kHealthy)
    add("Verify: the job passes the same step; `ncclwatch compare BEFORE AFTER --problem CMD` says fixed or not_fixed",
        &incident->now);
}

void AddSummary(const Material& material, Incident* incident) {
  const Finding* const root = RootFinding(material);
  const TriageFinding* const cause = FirstCause(material);
  if (root) {
    incident->title = fmt::format("{}: {}", diagnosis::Name(root->kind),
                                  root->culprits.empty() ? "all ranks" : diagnosis::Ranks(root->culprits));
    incident->summary = fmt::format("{} It began at {}.", root->summary, At(root->began_at_ns));
    incident->certainty = diagnosis::Name(root->certainty);
    if (cause && IsOfCulprit(*cause, *root)) incident->summary += fmt::format(" Its log says why: {}", cause->summary);
  } else if (cause) {
    incident->title = fmt::format("{}: {}", cause->rule->category, WhoseText(*cause));
    incident->summary = fmt::format(
        "{} {}", cause->summary,
        cause->first.at
            ? fmt::format("{} said it first, at {}.", diagnosis::Capital(WhoseText(*cause)), At(*cause->first.at))
            : fmt::format("{} said it first.", diagnosis::Capital(WhoseText(*cause))));
    incident->certainty = analyzer::Name(cause->confidence);
  } else {
    incident->title = incident->kind == Class::kHealthy ? "nothing failed" : "a failure that no rule knows";
    incident->summary = incident->kind == Class::kHealthy
                            ? "Neither black boxes nor logs show a fault."
                            : "The logs end with a failure, and no rule of ncclwatch knows it.";
  }
}

}  // namespace

const Finding* RootFinding(const Material& material) {
  if (!material.run || material.run->diagnosis.findings.empty()) return nullptr;
  return &material.run->diagnosis.findings.front();
}

const TriageFinding* FirstCause(const Material& material) {
  if (!material.triage || material.triage->causes.empty()) return nullptr;
  return &material.triage->causes.front();
}

Incident Investigate(const Material& material) {
  Incident incident;
  incident.kind = ClassOf(material);
  AddSummary(material, &incident);
  incident.timeline = TimelineOf(material);
  incident.triage = TriageSection(material, incident.kind);
  incident.localization = LocalizationOf(material);
  incident.hypotheses = HypothesesOf(material, incident.kind);
  incident.chain = ChainOf(material);
  incident.look_further = FurtherOf(material, incident.kind);
  AddActions(material, &incident);
  incident.cost = CostOf(material, incident.kind);
  if (material.run) incident.attempts = material.run->attempts;
  if (const std::string which = WhichAttempt(incident.attempts); !which.empty())
    incident.summary += fmt::format(" This is {}.", which);
  incident.not_looked_at = material.notes;
  if (!material.run)
    incident.not_looked_at.emplace_back("black boxes: none were given, so calls, waits and stacks are not known");
  if (!material.triage) incident.not_looked_at.emplace_back("logs: none were given");
  if (material.run)
    incident.not_looked_at.insert(incident.not_looked_at.end(), material.run->diagnosis.notes.begin(),
                                  material.run->diagnosis.notes.end());
  return incident;
}

const char* Name(Class kind) {
  switch (kind) {
    case Class::kHang: return "hang";
    case Class::kFailure: return "failure";
    case Class::kSlow: return "slowness";
    case Class::kNumbers: return "numbers";
    case Class::kHealthy: break;
  }
  return "healthy";
}

const char* Name(Standing standing) {
  switch (standing) {
    case Standing::kSupported: return "supported";
    case Standing::kRuledOut: return "ruled out";
    case Standing::kUntested: break;
  }
  return "untested";
}

}  // namespace ncclwatch::investigate
