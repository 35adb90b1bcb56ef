#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/compare/side.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/report/sections.h"
#include "analyzer/steps/steps.h"
#include "analyzer/trace/facts.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::compare {
namespace {

using analyzer::JobSteps;
using analyzer::StepSummary;

// The first steps make connections and plans: one in twenty, and two at least.
std::size_t WarmUpOf(std::size_t steps) { return std::max<std::size_t>(2, steps / 20); }

void AddSteps(const JobSteps& steps, Side* side) {
  const std::vector<StepSummary> all = analyzer::SummariesOf(steps);
  struct Part {
    const char* name;
    std::int64_t StepSummary::*value;
  };
  constexpr Part kParts[] = {{"step_time", &StepSummary::duration_ns},
                             {"step_compute", &StepSummary::compute_ns},
                             {"step_exposed", &StepSummary::exposed_ns},
                             {"step_wait", &StepSummary::wait_ns}};
  for (const Part& part : kParts) {
    Samples samples;
    for (std::size_t i = WarmUpOf(all.size()); i < all.size(); ++i) samples.push_back(InSeconds(all[i].*part.value));
    AddTrial(part.name, "s", Better::kLower, std::move(samples), side);
  }
}

// Once all ranks were there, by operation, size and members.
void AddTransfers(const JobSteps& steps, Side* side) {
  std::map<std::string, std::vector<std::pair<std::size_t, std::int64_t>>> all;
  for (const diagnosis::StepTransfers& one : steps.table.transfers) {
    auto& times = all[fmt::format("{} {} over {}", analyzer::OpText(one.function), analyzer::BytesText(one.bytes),
                                  one.rows.size())];
    for (const auto& timed : one.times)
      if (timed.step >= WarmUpOf(steps.table.steps())) times.emplace_back(timed.step, timed.ns);
  }
  for (auto& [name, times] : all) {
    std::stable_sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Samples samples;
    for (const auto& [step, ns] : times) samples.push_back(InSeconds(ns));
    AddTrial(name, "s", Better::kLower, std::move(samples), side);
  }
}

// That the program has told by ncclwatch_metric(): of the lowest rank that tells it.
void AddReportedNumbers(const std::vector<reader::BoxImage>& boxes, Side* side) {
  std::map<std::string, std::pair<int, Samples>> all;
  for (const reader::BoxImage& box : boxes)
    for (const reader::Note& note : box.notes) {
      if (note.kind != format::NoteKind::kMetric) continue;
      auto& [rank, samples] = all.try_emplace(note.name, box.rank, Samples()).first->second;
      if (box.rank < rank) rank = box.rank, samples.clear();
      if (box.rank == rank) samples.push_back(note.value);
    }
  for (auto& [name, samples] : all) AddTrial(name, "", BetterOf(name), std::move(samples.second), side);
}

void AddEnvironment(const std::vector<reader::BoxImage>& boxes, Side* side) {
  for (const auto& fact : analyzer::EnvironmentSection(boxes)) {
    std::vector<std::string>& values = side->environment[fact.value("what", "")];
    for (const auto& value : fact["values"])
      if (const std::string text = value.value("value", "");
          std::find(values.begin(), values.end(), text) == values.end())
        values.push_back(text);
  }
}

}  // namespace

absl::Status AddRun(const std::string& path, Side* side) {
  const auto located = analyzer::Locate({path});
  if (!located.ok()) return located.status();
  if (const std::string which = WhichAttempt(located->attempts); !which.empty())
    analyzer::Complain("compare", "{}: {}", path, which);
  const analyzer::Recording recording = analyzer::Recording::Open(located->paths);
  if (recording.processes().empty()) return absl::NotFoundError(path + ": no black box and no recording in it");
  const std::vector<reader::BoxImage> boxes = recording.Images();
  const auto steps = analyzer::StepsOf(recording);
  if (steps.ok()) {
    AddSteps(*steps, side);
    AddTransfers(*steps, side);
  } else {
    side->notes.push_back(fmt::format("{}: no steps: {}", path, std::string(steps.status().message())));
  }
  AddReportedNumbers(boxes, side);
  AddEnvironment(boxes, side);
  reader::RunImage run = analyzer::ReadJob(located->paths, reader::Calls::kForVerdict);
  if (!run.boxes.empty())
    for (const diagnosis::Finding& finding : analyzer::Diagnose(std::move(run)).findings)
      side->problems.push_back({std::string(diagnosis::Name(finding.kind)), finding.summary});
  return absl::OkStatus();
}

}  // namespace ncclwatch::compare
