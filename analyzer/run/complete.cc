#include "analyzer/run/complete.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/site_lines.h"
#include "watchdog/act/files.h"
#include "watchdog/diagnosis/model/text.h"
#include "watchdog/diagnosis/report/render.h"
#include "watchdog/diagnosis/view/from_boxes.h"

namespace ncclwatch::analyzer {
namespace {

// The leader's stacks are final. Without them those of the culprits count that were read after the verdict.
void AddStacks(const std::string& directory, const diagnosis::Diagnosis& verdict, reader::RunImage* run) {
  const std::int64_t at_ns = diagnosis::FromBoxes(run->boxes).now_ns;
  const bool known = std::any_of(run->stacks.begin(), run->stacks.end(),
                                 [at_ns](const reader::VerdictStacks& one) { return one.verdict_at_ns == at_ns; });
  if (known || at_ns == 0) return;
  const auto place = descriptors::Directory::Own(directory);
  reader::VerdictStacks late{.verdict_at_ns = at_ns, .processes = {}};
  for (const diagnosis::Finding& finding : verdict.findings)
    for (const diagnosis::Culprit& culprit : finding.culprit_details) {
      if (!culprit.pid) continue;
      std::optional<reader::ProcessStacks> process = reader::ReadProcessStacks(place, *culprit.pid);
      if (process && process->start_time == culprit.start_time && process->at_ns >= at_ns)
        late.processes.push_back(std::move(*process));
    }
  if (late.processes.empty()) return;
  if (!act::WriteFile(place, reader::kVerdictStacksFile, reader::Format(late)).empty()) return;
  run->stacks.push_back(std::move(late));
}

bool SameVerdict(const diagnosis::Diagnosis& a, const diagnosis::Diagnosis& b) {
  return !a.clean() && !b.clean() && a.findings[0].kind == b.findings[0].kind &&
         a.findings[0].culprits == b.findings[0].culprits && a.watched == b.watched && a.expected == b.expected &&
         a.unseen_ranks == b.unseen_ranks;
}

// Where the calls of the first finding come from: a leader tells modules and offsets only.
std::vector<std::string> CallLines(const diagnosis::Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  if (diagnosis.findings.empty()) return lines;
  for (const diagnosis::CallSummary& call : diagnosis.findings.front().calls) {
    if (!call.op || !call.source || call.source->file.empty()) continue;
    lines.push_back(
        fmt::format("{}: {} at {}", diagnosis::Ranks(call.ranks), *call.op, diagnosis::LineText(*call.source)));
  }
  return lines;
}

}  // namespace

Completed Complete(const std::string& directory, const Verdict& verdict, reader::RunImage run) {
  Completed completed;
  const bool judged = std::any_of(run.boxes.begin(), run.boxes.end(),
                                  [](const reader::BoxImage& box) { return box.leader_state.verdict_at_ns != 0; });
  if (!judged) return completed;
  AddStacks(directory, Diagnose(run), &run);
  SiteLines lines(run.boxes);
  diagnosis::Diagnosis again = Diagnose(run);
  lines.FillIn(&again);
  const diagnosis::Diagnosis& before = verdict.diagnosis;
  if (!SameVerdict(before, again)) return completed;
  const std::vector<std::string>& said = before.findings[0].evidence;
  for (const std::string& line : again.findings[0].evidence)
    if (std::find(said.begin(), said.end(), line) == said.end()) completed.added.push_back(line);
  for (std::string& line : CallLines(again)) completed.added.push_back(std::move(line));
  if (completed.added.empty()) return completed;
  completed.json = diagnosis::ToJson(again);
  completed.text = diagnosis::ToText(lines.ForPeople(again));
  return completed;
}

}  // namespace ncclwatch::analyzer
