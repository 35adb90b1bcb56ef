#include "analyzer/jobs/diagnose.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/restart/after_diagnosis.h"
#include "analyzer/restart/restart.h"
#include "core/diagnose.h"
#include "core/report/render.h"
#include "core/report/where.h"
#include "core/slow/find.h"
#include "core/text/printable.h"
#include "core/view/from_boxes.h"
#include "watchdog/evidence/ignore_file.h"
#include "watchdog/evidence/topology_file.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::analyzer {
namespace {

void AddNotes(const reader::RunImage& run, diagnosis::Snapshot* snapshot) {
  for (const reader::Failure& failure : run.failures)
    snapshot->missing.push_back(Printable(fmt::format("unreadable: {}: {}", failure.path, failure.reason)));
  for (const std::string& note : run.notes) snapshot->notes.push_back(Printable(note));
  for (const std::string& part : run.missing) snapshot->missing.push_back(Printable(part));
}

// A wait that is not timed may have been over a moment later.
void LeaveSuspected(diagnosis::Diagnosis* verdict) {
  for (diagnosis::Finding& finding : verdict->findings)
    if (finding.certainty == diagnosis::Certainty::kLikely) finding.certainty = diagnosis::Certainty::kSuspected;
}

Judged AsReported(reader::RunImage run, const std::vector<reader::Observation>& own) {
  Judged judged{diagnosis::FromBoxes(std::move(run.boxes), own, run.witness), run.untimed};
  AddNotes(run, &judged.snapshot);
  judged.snapshot.meanwhile = reader::ReadMeanwhile(judged.snapshot.boxes);
  judged.snapshot.machines = reader::ReadMachines(judged.snapshot.boxes);
  diagnosis::UseStacks(run.stacks, &judged.snapshot);
  return judged;
}

diagnosis::Diagnosis Stopped(const Judged& judged) {
  diagnosis::Diagnosis verdict = diagnosis::Diagnose(judged.snapshot);
  if (judged.untimed) LeaveSuspected(&verdict);
  return verdict;
}

bool VerdictStands(const std::vector<reader::BoxImage>& boxes) {
  return std::any_of(boxes.begin(), boxes.end(), [](const auto& box) { return box.leader_state.verdict_at_ns != 0; });
}

}  // namespace

Judged ToJudge(reader::RunImage run) {
  // What has been judged is told as it was judged, and a dead job at the moment its boxes tell of. Only a live job
  // without a verdict is judged now.
  if (VerdictStands(run.boxes) || !AnyAlive(run.boxes)) {
    const std::vector<reader::Observation> own = ObserveNow(run.boxes, {});
    return AsReported(std::move(run), own);
  }
  Judged judged{diagnosis::FromBoxes(run.boxes), run.untimed};
  diagnosis::Snapshot& snapshot = judged.snapshot;
  AddNotes(run, &snapshot);
  snapshot.meanwhile = reader::ReadMeanwhile(snapshot.boxes);
  snapshot.machines = reader::ReadMachines(snapshot.boxes);
  if (snapshot.boot_id == ThisPlace().boot_id) {
    const std::vector<reader::Observation> own = ObserveNow(run.boxes, snapshot.observations);
    snapshot.observations.insert(snapshot.observations.end(), own.begin(), own.end());
    snapshot.now_ns = MonotonicNow();
  }
  return judged;
}

diagnosis::Diagnosis Diagnose(const Judged& judged, const diagnosis::SlowContext& context) {
  diagnosis::Diagnosis verdict = Stopped(judged);
  if (judged.untimed || !verdict.harmless()) return verdict;
  std::vector<diagnosis::Finding> slow = diagnosis::FindSlow(judged.snapshot, context);
  std::move(verdict.findings.begin(), verdict.findings.end(), std::back_inserter(slow));
  verdict.findings = std::move(slow);
  return verdict;
}

diagnosis::Diagnosis Diagnose(reader::RunImage run, const diagnosis::SlowContext& context) {
  return Diagnose(ToJudge(std::move(run)), context);
}

diagnosis::Diagnosis DiagnoseWith(reader::RunImage run, const std::vector<reader::Observation>& own) {
  return Stopped(AsReported(std::move(run), own));
}

std::vector<diagnosis::Finding> SlowIn(reader::RunImage run, const std::vector<reader::Observation>& own,
                                       const diagnosis::SlowContext& context) {
  const Judged judged = AsReported(std::move(run), own);
  if (judged.untimed) return {};
  return diagnosis::FindSlow(judged.snapshot, context);
}

nlohmann::ordered_json DiagnosisJson(const diagnosis::Diagnosis& verdict, const std::vector<reader::Failure>& failures,
                                     const Attempts& attempts) {
  auto json = nlohmann::ordered_json::parse(diagnosis::ToJson(verdict, diagnosis::Checked::kShown));
  auto unreadable = nlohmann::ordered_json::array();
  for (const reader::Failure& failure : failures)
    unreadable.push_back({{"path", Printable(failure.path)}, {"reason", Printable(failure.reason)}});
  json["unreadable"] = std::move(unreadable);
  json["restart"] = RestartJson(RestartAfter(verdict));
  json["attempts"] = ToJson(attempts);
  return json;
}

void NameAndIgnore(std::string_view command, SiteLines* lines, diagnosis::Diagnosis* verdict) {
  static const std::vector<diagnosis::IgnoreLine> ignore = [&] {
    std::vector<std::string> wrong;
    auto known = evidence::ReadIgnoreFile(settings::OfThisProcess().ignore, &wrong);
    for (const std::string& line : wrong) Complain(command, "NCCLWATCH_IGNORE: {}", line);
    return known;
  }();
  lines->FillIn(verdict);
  LeaveOut(ignore, verdict);
}

diagnosis::Topology TopologyOfTheJob(std::string_view command) {
  const char* const path = std::getenv("NCCLWATCH_TOPOLOGY");
  if (!path || !*path) return {};
  std::string wrong;
  const diagnosis::Topology topology = evidence::ReadTopology(path, &wrong);
  if (!wrong.empty()) Complain(command, "NCCLWATCH_TOPOLOGY: {}", wrong);
  return topology;
}

}  // namespace ncclwatch::analyzer
