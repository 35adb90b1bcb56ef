#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "analyzer/console/units.h"
#include "analyzer/investigate/incident.h"
#include "core/model/text.h"

namespace ncclwatch::investigate {
namespace {

// A rank is taken to hold one GPU.
double GpuHours(double gpus, absl::Duration time) { return gpus * absl::ToDoubleHours(time); }

std::string Hours(double hours) { return hours < 0.01 ? fmt::format("{:.4f}", hours) : fmt::format("{:.2f}", hours); }

std::optional<absl::Time> LastCheckpoint(const Material& material, absl::Time before) {
  std::optional<absl::Time> last;
  for (const JobEvent& event : material.events)
    if (event.type == "checkpoint" && event.at <= before) last = event.at;
  return last;
}

void AddLostWork(const Material& material, absl::Time failed, double gpus, std::vector<std::string>* cost) {
  if (const auto last = LastCheckpoint(material, failed))
    cost->push_back(fmt::format("Work since the last checkpoint, {} before: {} GPU-hours.",
                                analyzer::DurationText(failed - *last), Hours(GpuHours(gpus, failed - *last))));
  else
    cost->push_back(
        "Work since the last checkpoint: not known. The program tells checkpoints by ncclwatch_event(\"checkpoint\", "
        "...).");
}

// From the first cause to the last line that has a time.
std::vector<std::string> OfLogs(const Material& material) {
  const analyzer::TriageFinding* const cause = FirstCause(material);
  if (!cause || !cause->first.at) return {"Not measured: there are no black boxes, and the logs have no times."};
  std::set<int> ranks;
  absl::Time last = *cause->first.at;
  for (const auto* const some : {&material.triage->causes, &material.triage->echoes, &material.triage->confirmations})
    for (const analyzer::TriageFinding& reported : *some) {
      ranks.insert(reported.ranks.begin(), reported.ranks.end());
      if (reported.first.at) last = std::max(last, *reported.first.at);
    }
  const auto gpus = static_cast<double>(ranks.size());
  const absl::Duration lasted = last - *cause->first.at;
  std::vector<std::string> cost = {fmt::format("{} that the logs name were held for {}: {} GPU-hours.",
                                               diagnosis::Plural(ranks.size(), "rank"), analyzer::DurationText(lasted),
                                               Hours(GpuHours(gpus, lasted)))};
  AddLostWork(material, *cause->first.at, gpus, &cost);
  cost.emplace_back("One GPU for each of these ranks is assumed.");
  return cost;
}

}  // namespace

std::vector<std::string> CostOf(const Material& material, Class kind) {
  std::vector<std::string> cost;
  const diagnosis::Finding* const root = RootFinding(material);
  if (!material.run) return OfLogs(material);
  const Run& run = *material.run;
  const double gpus = std::max(run.diagnosis.world_size, run.diagnosis.watched);
  if (!root) return {"None."};
  const absl::Time began = absl::FromUnixNanos(root->began_at_ns);
  const absl::Duration lasted = std::max(absl::ZeroDuration(), run.ended - began);
  const std::string assumption = fmt::format("One GPU for each of {:.0f} ranks is assumed.", gpus);
  if (kind == Class::kSlow && root->share_lost) {
    cost.push_back(fmt::format("{:.1f} % of {:.0f} ranks' time for {}: {} GPU-hours.", 100 * *root->share_lost, gpus,
                               analyzer::DurationText(lasted), Hours(*root->share_lost * GpuHours(gpus, lasted))));
    cost.push_back(fmt::format("If it stays, it costs {} GPU-hours a day.",
                               Hours(*root->share_lost * GpuHours(gpus, absl::Hours(24)))));
  } else if (kind == Class::kHang) {
    cost.push_back(fmt::format("{:.0f} ranks stood still for {}: {} GPU-hours.", gpus, analyzer::DurationText(lasted),
                               Hours(GpuHours(gpus, lasted))));
    AddLostWork(material, began, gpus, &cost);
  } else {
    cost.push_back(fmt::format("{:.0f} ranks ran on for {} after it: {} GPU-hours.", gpus,
                               analyzer::DurationText(lasted), Hours(GpuHours(gpus, lasted))));
    AddLostWork(material, began, gpus, &cost);
  }
  cost.push_back(assumption);
  return cost;
}

}  // namespace ncclwatch::investigate
