#include "analyzer/jobs/diagnose.h"

#include <fmt/core.h>

#include <algorithm>

#include "analyzer/console/units.h"
#include "analyzer/jobs/observe.h"
#include "watchdog/diagnosis/diagnose.h"
#include "watchdog/diagnosis/report/where.h"
#include "watchdog/diagnosis/slow/find.h"
#include "watchdog/diagnosis/view/from_boxes.h"
#include "watchdog/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

void AddNotes(const reader::RunImage& run, diagnosis::Snapshot* snapshot) {
  for (const reader::Failure& failure : run.failures)
    snapshot->notes.push_back(Printable(fmt::format("unreadable: {}: {}", failure.path, failure.reason)));
  for (const std::string& note : run.notes) snapshot->notes.push_back(Printable(note));
}

// A wait that is not timed may have been over a moment later.
void LeaveSuspected(diagnosis::Diagnosis* verdict) {
  for (diagnosis::Finding& finding : verdict->findings)
    if (finding.certainty == diagnosis::Certainty::kLikely) finding.certainty = diagnosis::Certainty::kSuspected;
}

// What slows a job is told where nothing stops it.
diagnosis::Diagnosis WithSlowness(const diagnosis::Snapshot& snapshot, const diagnosis::SlowContext& context,
                                  diagnosis::Diagnosis verdict) {
  if (verdict.healthy()) verdict.findings = diagnosis::FindSlow(snapshot, context);
  return verdict;
}

enum class Slowness { kNot, kToo };

diagnosis::Diagnosis Judge(reader::RunImage run, const std::vector<reader::Observation>& own, Slowness slowness,
                           const diagnosis::SlowContext& context = {}) {
  diagnosis::Snapshot snapshot = diagnosis::FromBoxes(std::move(run.boxes), own, run.witness);
  AddNotes(run, &snapshot);
  diagnosis::UseStacks(run.stacks, &snapshot);
  diagnosis::Diagnosis verdict = diagnosis::Diagnose(snapshot);
  if (run.untimed) LeaveSuspected(&verdict);
  if (slowness == Slowness::kToo && !run.untimed) return WithSlowness(snapshot, context, std::move(verdict));
  return verdict;
}

bool VerdictStands(const std::vector<reader::BoxImage>& boxes) {
  return std::any_of(boxes.begin(), boxes.end(), [](const auto& box) { return box.leader_state.verdict_at_ns != 0; });
}

}  // namespace

diagnosis::Diagnosis Diagnose(reader::RunImage run, const diagnosis::SlowContext& context) {
  // What has been judged is told as it was judged, and a dead job at the moment its boxes tell of. Only a live job
  // without a verdict is judged now.
  if (VerdictStands(run.boxes) || !AnyAlive(run.boxes)) {
    const std::vector<reader::Observation> own = ObserveNow(run.boxes, {});
    return Judge(std::move(run), own, Slowness::kToo, context);
  }
  diagnosis::Snapshot snapshot = diagnosis::FromBoxes(run.boxes);
  AddNotes(run, &snapshot);
  if (snapshot.boot_id == ThisPlace().boot_id) {
    const std::vector<reader::Observation> own = ObserveNow(run.boxes, snapshot.observations);
    snapshot.observations.insert(snapshot.observations.end(), own.begin(), own.end());
    snapshot.now_ns = MonotonicNow();
  }
  return WithSlowness(snapshot, context, diagnosis::Diagnose(snapshot));
}

diagnosis::Diagnosis DiagnoseWith(reader::RunImage run, const std::vector<reader::Observation>& own) {
  return Judge(std::move(run), own, Slowness::kNot);
}

}  // namespace ncclwatch::analyzer
