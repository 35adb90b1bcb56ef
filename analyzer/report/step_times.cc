#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/report/sections.h"
#include "analyzer/steps/steps.h"
#include "core/slow/robust.h"
#include "core/text/printable.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;
using diagnosis::StepPart;

constexpr std::size_t kMostSteps = 20000;  // the newest
constexpr std::size_t kMostMetrics = 16;

Json BySteps(const JobSteps& steps) {
  std::vector<StepSummary> all = SummariesOf(steps);
  if (all.size() > kMostSteps) all.erase(all.begin(), all.end() - kMostSteps);
  Json list = Json::array();
  for (const StepSummary& one : all)
    list.push_back({{"step", one.number},
                    {"duration_s", InSeconds(one.duration_ns)},
                    {"compute_s", InSeconds(one.compute_ns)},
                    {"exposed_s", InSeconds(one.exposed_ns)},
                    {"wait_s", InSeconds(one.wait_ns)},
                    {"idle_s", 0.0},
                    {"last", one.last},
                    {"late_s", InSeconds(one.late_ns)}});
  return list;
}

template <typename Part>
double MedianOf(const std::vector<StepPart>& row, Part part) {
  std::vector<std::int64_t> values;
  for (const StepPart& one : row)
    if (one.duration_ns > 0) values.push_back(part(one));
  return InSeconds(diagnosis::Median(std::move(values)));
}

Json ByRanks(const JobSteps& steps) {
  Json list = Json::array();
  for (std::size_t row = 0; row < steps.table.parts.size(); ++row) {
    const std::vector<StepPart>& parts = steps.table.parts[row];
    list.push_back({{"rank", steps.table.ranks[row]},
                    {"compute_s", MedianOf(parts, [](const StepPart& one) { return one.compute_ns(); })},
                    {"exposed_s", MedianOf(parts, [](const StepPart& one) { return one.exposed_ns; })},
                    {"wait_s", MedianOf(parts, [](const StepPart& one) { return one.waiting_ns(); })},
                    {"idle_s", 0.0},
                    {"late_s", MedianOf(parts, [](const StepPart& one) { return one.late_ns; })}});
  }
  return list;
}

// By name and step, the median over the ranks that said it; null of what is no number.
Json Metrics(const Recording& recording) {
  std::map<std::string, std::map<std::int64_t, std::vector<double>>> said;
  for (const ProcessRecording& process : recording.processes())
    for (const reader::Note& note : process.process().notes)
      if (note.kind == format::NoteKind::kMetric && note.step != format::kNoStep)
        said[Printable(note.name)][note.step].push_back(note.value);
  Json list = Json::array();
  for (const auto& [name, steps] : said) {
    if (list.size() == kMostMetrics) break;
    Json numbers = Json::array(), values = Json::array();
    for (const auto& [step, of_step] : steps) {
      numbers.push_back(step);
      const bool finite = std::all_of(of_step.begin(), of_step.end(), [](double one) { return std::isfinite(one); });
      values.push_back(finite ? Json(diagnosis::Median(of_step)) : Json(nullptr));
    }
    list.push_back({{"name", name}, {"steps", std::move(numbers)}, {"values", std::move(values)}});
  }
  return list;
}

}  // namespace

Json StepsSection(const Recording& recording) {
  Json section = {{"why_none", nullptr}, {"steps", Json::array()}, {"ranks", Json::array()}};
  section["metrics"] = Metrics(recording);
  const auto steps = StepsOf(recording);
  if (!steps.ok()) {
    section["why_none"] = Printable(std::string(steps.status().message()));
    return section;
  }
  section["steps"] = BySteps(*steps);
  section["ranks"] = ByRanks(*steps);
  return section;
}

}  // namespace ncclwatch::analyzer
