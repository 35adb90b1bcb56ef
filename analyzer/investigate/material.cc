#include "analyzer/investigate/material.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/files/input_file.h"
#include "analyzer/jobs/crash_frames.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/recording/recording.h"
#include "analyzer/segments/segment_file.h"
#include "analyzer/steps/steps.h"
#include "analyzer/triage/read_logs.h"
#include "core/slow/robust.h"

namespace ncclwatch::investigate {
namespace {

namespace fs = std::filesystem;

bool HoldsARun(const std::string& word) {
  std::error_code error;
  if (word == "latest" || word.ends_with(".box")) return true;
  if (!fs::is_directory(word, error)) return false;
  return !analyzer::SegmentFiles(word).empty() || !analyzer::BoxDirectories(word).empty();
}

bool IsLog(const analyzer::LogFile& file) {
  const std::string extension = fs::path(file.path).extension().string();
  return extension != ".json" && extension != ".jsonl" && extension != ".csv";
}

void AddEvents(const std::string& path, Material* material) {
  analyzer::InputFile file(path);
  for (std::string line; std::getline(file, line);) {
    const auto one = nlohmann::json::parse(line, nullptr, false);
    if (!one.is_object() || !one.contains("event_type") || !one["event_type"].is_string() || !one.contains("timestamp"))
      continue;
    JobEvent event{absl::InfinitePast(), one["event_type"].get<std::string>(), -1, std::nullopt};
    if (one["timestamp"].is_number())
      event.at = absl::UnixEpoch() + absl::Seconds(one["timestamp"].get<double>());
    else if (std::string why;
             !one["timestamp"].is_string() ||
             !absl::ParseTime(absl::RFC3339_full, one["timestamp"].get<std::string>(), &event.at, &why))
      continue;
    if (one.contains("rank") && one["rank"].is_number_integer()) event.rank = one["rank"].get<int>();
    if (one.contains("step") && one["step"].is_number_unsigned()) event.step = one["step"].get<std::uint64_t>();
    material->events.push_back(std::move(event));
  }
}

void AddEventsBelow(const std::string& word, Material* material) {
  std::error_code error;
  if (fs::is_regular_file(word, error) && word.ends_with(".jsonl")) return AddEvents(word, material);
  if (!fs::is_directory(word, error)) return;
  for (fs::recursive_directory_iterator entry(word, error), end; !error && entry != end; entry.increment(error))
    if (const fs::path name = entry->path().filename(); name == "events.jsonl" || name == "events.1.jsonl")
      AddEvents(entry->path().string(), material);
}

absl::Time BeginningOf(const analyzer::Recording& recording) {
  std::int64_t first_ns = INT64_MAX;
  for (const analyzer::ProcessRecording& process : recording.processes()) {
    const std::int64_t entered = process.first_entered_ns();
    if (entered != 0) first_ns = std::min(first_ns, entered + process.process().realtime_minus_monotonic_ns);
    for (const auto& segment : process.segments())
      if (segment.place->index.header.first_ns != 0)
        first_ns = std::min(first_ns, segment.place->index.header.first_ns);
  }
  return first_ns == INT64_MAX ? absl::InfinitePast() : absl::FromUnixNanos(first_ns);
}

absl::StatusOr<Run> ReadRun(const std::vector<std::string>& words, const analyzer::AttemptChoice& choice,
                            std::vector<std::string>* notes) {
  auto located = analyzer::Locate(words, choice);
  if (!located.ok()) return located.status();
  Run run;
  reader::RunImage image = analyzer::ReadJob(located->paths, reader::Calls::kForVerdict);
  for (const reader::Failure& failure : image.failures) notes->push_back(failure.path + ": " + failure.reason);
  if (image.boxes.empty()) return absl::NotFoundError(absl::StrJoin(words, " ") + ": no black box could be read");
  analyzer::AddCrashFrames(&image);
  analyzer::SiteLines lines(image.boxes);
  diagnosis::Diagnosis verdict = analyzer::Diagnose(std::move(image));
  analyzer::NameAndIgnore("investigate", &lines, &verdict);
  run.diagnosis = lines.ForPeople(std::move(verdict));
  run.attempts = AsDiagnosed(run.diagnosis, std::move(located->attempts));
  const analyzer::Recording recording = analyzer::Recording::Open(located->paths);
  run.began = BeginningOf(recording);
  run.ended = recording.End();
  if (const auto steps = analyzer::StepsOf(recording); steps.ok()) {
    std::vector<double> all;
    for (const auto& [number, seconds] : analyzer::DurationsOf(*steps)) all.push_back(seconds);
    run.steps = all.size();
    run.step_s = diagnosis::Median(std::move(all));
  }
  return run;
}

}  // namespace

absl::StatusOr<Material> Gather(const std::vector<std::string>& words, const analyzer::AttemptChoice& choice) {
  Material material;
  material.words = words;
  std::vector<std::string> runs, logs;
  for (const std::string& word : words) (HoldsARun(word) ? runs : logs).push_back(word);
  if (!runs.empty()) {
    auto run = ReadRun(runs, choice, &material.notes);
    if (!run.ok()) return run.status();
    material.run = *std::move(run);
  }
  std::vector<std::string> places = logs;
  std::error_code error;
  for (const std::string& run : runs)
    if (fs::is_directory(run, error)) places.push_back(run);
  for (const std::string& place : places) AddEventsBelow(place, &material);
  std::stable_sort(material.events.begin(), material.events.end(),
                   [](const JobEvent& a, const JobEvent& b) { return a.at < b.at; });
  if (!places.empty()) {
    auto files = analyzer::FindLogs(places);
    if (!files.ok()) return files.status();
    std::erase_if(*files, [](const analyzer::LogFile& file) { return !IsLog(file); });
    material.log_files = files->size();
    auto matcher = analyzer::MakeMatcher({});
    if (!matcher.ok()) return matcher.status();
    material.matcher = std::make_shared<const analyzer::Matcher>(*std::move(matcher));
    if (!files->empty()) material.triage = TriageOf(*material.matcher, *files);
    if (material.triage) {
      const std::vector<std::string>& failures = material.triage->failures;
      material.notes.insert(material.notes.end(), failures.begin(), failures.end());
      if (!material.run && material.events.empty() && !failures.empty() && failures.size() == files->size())
        return absl::InvalidArgumentError(failures.front());
    }
  }
  if (!material.run && !material.triage && material.events.empty())
    return absl::NotFoundError(absl::StrJoin(words, " ") + ": neither black boxes nor logs");
  return material;
}

}  // namespace ncclwatch::investigate
