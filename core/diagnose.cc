// The steps put together: the view, the rules, and what every finding is given whatever its kind.
#include "core/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/model/snapshot.h"
#include "core/model/text.h"
#include "core/report/advice.h"
#include "core/report/notes.h"
#include "core/report/where.h"
#include "core/rules/describe.h"
#include "core/rules/engine.h"
#include "core/rules/rules.h"
#include "core/slow/machine.h"
#include "core/slow/skew.h"
#include "core/steps/steps.h"
#include "core/view/as_of.h"

namespace ncclwatch::diagnosis {
namespace {

void DescribeJob(const View& view, Diagnosis* diagnosis) {
  std::set<std::string> hosts;
  for (const Process& process : view.processes) {
    if (!process.box->dump) hosts.insert(process.box->host);
    if (diagnosis->job.empty()) diagnosis->job = process.box->job;
    diagnosis->attempt = std::max(diagnosis->attempt, process.box->attempt);
  }
  diagnosis->hosts.assign(hosts.begin(), hosts.end());
  diagnosis->processes = static_cast<int>(view.processes.size());
  diagnosis->watched = static_cast<int>(view.nodes.size());
  diagnosis->expected = std::max(view.expected, 0);
  diagnosis->world_size = view.expected > 0 ? view.expected : diagnosis->watched;
  for (int rank = 0; rank < diagnosis->expected; ++rank) {
    if (!view.node_of_rank.contains(rank)) diagnosis->unseen_ranks.push_back(rank);
  }
}

void SetCoverage(Diagnosis* diagnosis) {
  const bool all = diagnosis->missing.empty() && diagnosis->processes > 0;
  for (CheckedRule& rule : diagnosis->checked) {
    if (!rule.ran) continue;
    rule.covers = all ? CheckedRule::Covers::kAll : CheckedRule::Covers::kPart;
    if (!diagnosis->missing.empty()) rule.why = diagnosis->missing.front();
  }
}

Diagnosis DiagnoseAt(const Snapshot& snapshot) {
  Diagnosis diagnosis;
  const View view = MakeView(snapshot);
  DescribeJob(view, &diagnosis);
  diagnosis.missing = snapshot.missing;
  if (!diagnosis.unseen_ranks.empty())
    diagnosis.missing.push_back(fmt::format("{}: no {} here", Ranks(diagnosis.unseen_ranks), SourceText(view)));
  AddMissing(view, &diagnosis.missing);
  diagnosis.findings = RunRules(snapshot, view, AllRules(), &diagnosis.checked);
  AddSteps(view, &diagnosis.findings);
  for (Finding& finding : diagnosis.findings) {
    finding.detected_at_ns = ToRealtime(view, view.now_ns);
    AddAdvice(&finding);
  }
  if (diagnosis.harmless()) diagnosis.unexplained = StandstillOfAll(view);
  // Beside what stopped the job: it may be why, and is never what stopped it.
  if (!diagnosis.findings.empty())
    if (auto skew = FindSkew(view)) diagnosis.findings.push_back(*std::move(skew));
  if (!diagnosis.unexplained.empty()) diagnosis.missing.push_back(diagnosis.unexplained);
  SetCoverage(&diagnosis);
  diagnosis.notes = snapshot.notes;
  diagnosis.notes.insert(diagnosis.notes.end(), diagnosis.missing.begin(), diagnosis.missing.end());
  AddNotes(view, &diagnosis.notes);
  return diagnosis;
}

}  // namespace

Diagnosis Diagnose(const Snapshot& snapshot) {
  Diagnosis diagnosis = TellsOfLater(snapshot) ? DiagnoseAt(AsOf(snapshot, snapshot.now_ns)) : DiagnoseAt(snapshot);
  AddMachines(snapshot.machines, &diagnosis.findings);
  AddWhere(snapshot.stacks, &diagnosis);
  LeaveOut(snapshot.ignore, &diagnosis);
  return diagnosis;
}

}  // namespace ncclwatch::diagnosis
