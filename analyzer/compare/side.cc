#include "analyzer/compare/side.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

namespace ncclwatch::compare {
namespace {

absl::Status AddPath(const std::string& path, Side* side) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error) || path == "latest") return AddRun(path, side);
  if (!std::filesystem::exists(path, error)) return absl::NotFoundError(path + ": there is no such file or folder");
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".box") return AddRun(path, side);
  if (extension == ".csv" || extension == ".tsv") return AddCsv(path, side);
  return AddJson(path, side);
}

}  // namespace

absl::StatusOr<Side> ReadSide(const std::string& words) {
  Side side;
  side.name = words;
  const std::vector<std::string> paths = absl::StrSplit(words, ',');
  for (const std::string& path : paths) {
    side.paths.push_back(path);
    if (absl::Status status = AddPath(path, &side); !status.ok()) return status;
  }
  return side;
}

Better BetterOf(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  const auto has = [&](const char* word) { return lower.find(word) != std::string::npos; };
  const auto ends = [&](const char* word) { return lower.ends_with(word); };
  for (const char* word : {"per_s", "per_sec", "/s", "throughput", "bandwidth", "busbw", "algbw", "tokens_s",
                           "samples_s", "mfu", "flops", "speedup", "hit_rate", "utilization"})
    if (has(word)) return Better::kHigher;
  for (const char* word : {"time", "latency", "duration", "memory", "wait", "stall", "overhead"})
    if (has(word)) return Better::kLower;
  for (const char* word : {"_s", "_ms", "_us", "_ns", "_bytes"})
    if (ends(word)) return Better::kLower;
  return Better::kUnknown;
}

void AddTrial(const std::string& name, const std::string& unit, Better better, Samples samples, Side* side) {
  if (samples.empty()) return;
  Metric& metric = side->metrics[name];
  metric.unit = unit;
  metric.better = better;
  metric.trials.push_back(std::move(samples));
}

}  // namespace ncclwatch::compare
