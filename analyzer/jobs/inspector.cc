#include "analyzer/jobs/inspector.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analyzer/console/progress.h"
#include "analyzer/import/inspector/table.h"
#include "analyzer/jobs/locate.h"
#include "core/diagnose.h"
#include "core/slow/find.h"
#include "core/text/printable.h"
#include "core/view/from_boxes.h"
#include "core/view/view.h"

namespace ncclwatch::analyzer {
namespace {

namespace inspector = import::inspector;

// Where steps are only as long as their calls, a rank that is late by little, or data that take a little longer, may
// hold nobody up.
constexpr double kLeastShareOfCalls = 0.1;

// Kernels that last longer show who waits; why another rank comes late, nothing in this recording tells.
std::vector<diagnosis::Finding> FindingsOf(const diagnosis::View& view, const inspector::Job& job,
                                           const diagnosis::Topology& topology) {
  std::vector<diagnosis::Finding> findings = diagnosis::FindSlowSteps(view, job.table, {nullptr, topology});
  if (!job.timed) std::erase_if(findings, [](const auto& one) { return one.share_lost < kLeastShareOfCalls; });
  for (diagnosis::Finding& finding : findings)
    if (finding.kind == diagnosis::Kind::kStraggler) finding.certainty = diagnosis::Certainty::kSuspected;
  return findings;
}

}  // namespace

std::vector<std::string> InspectorFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const bool directory = std::filesystem::is_directory(path, error);
    if (directory && !BoxFiles(path).empty()) return {};
    if (!directory && !inspector::IsFile(path)) return {};
    const std::vector<std::string> of = directory ? inspector::FilesIn(path) : std::vector<std::string>{path};
    if (of.empty()) return {};
    files.insert(files.end(), of.begin(), of.end());
  }
  return files;
}

absl::StatusOr<InspectorVerdict> DiagnoseInspector(const std::vector<std::string>& files,
                                                   const diagnosis::Topology& topology) {
  inspector::Recording recording;
  {
    Progress progress("reading NCCL Inspector's files", files.size());
    recording = inspector::Read(files, [&](std::size_t count) { progress.Done(count); });
  }
  InspectorVerdict verdict{{}, recording.complaints};
  if (recording.operations.empty())
    return absl::NotFoundError(recording.complaints.empty() ? "no operation was recorded"
                                                            : recording.complaints.front());
  inspector::Job job = inspector::MakeJob(recording);
  recording = {};
  diagnosis::Snapshot snapshot = diagnosis::FromBoxes(std::move(job.boxes));
  for (const std::string& note : job.notes) snapshot.notes.push_back(Printable(note));
  // Without calls no rule has anything to say: who there is, and who is missing.
  verdict.diagnosis = diagnosis::Diagnose(snapshot);
  for (diagnosis::CheckedRule& rule : verdict.diagnosis.checked)
    rule = {
        .rule = rule.rule, .makes = rule.makes, .why = "NCCL Inspector's lines do not tell whether a job has stopped"};
  verdict.diagnosis.findings = FindingsOf(diagnosis::MakeView(snapshot), job, topology);
  verdict.diagnosis.hosts = job.table.host_names;
  std::sort(verdict.diagnosis.hosts.begin(), verdict.diagnosis.hosts.end());
  return verdict;
}

}  // namespace ncclwatch::analyzer
