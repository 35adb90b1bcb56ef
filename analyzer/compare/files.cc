#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "analyzer/compare/side.h"
#include "analyzer/files/input_file.h"

namespace ncclwatch::compare {
namespace {

using LooseJson = nlohmann::json;

std::optional<double> NumberIn(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  while (*end == ' ' || *end == '\r') ++end;
  return text.empty() || *end != '\0' || !std::isfinite(value) ? std::nullopt : std::optional(value);
}

// Numbers that count, and do not measure.
bool IsLabel(const std::string& name) {
  static const std::set<std::string> labels = {"step",      "rank",  "epoch",     "iteration",  "iter", "time",
                                               "timestamp", "seq",   "slot",      "pid",        "host", "seed",
                                               "run",       "trial", "wall_time", "global_step"};
  return labels.contains(name);
}

using Columns = std::map<std::string, Samples>;

void AddAll(const Columns& columns, Side* side) {
  for (const auto& [name, samples] : columns) AddTrial(name, "", BetterOf(name), samples, side);
}

// One level of nesting: {"loss": 1, "memory": {"peak": 2}} has "memory.peak".
void AddNumbers(const LooseJson& line, const std::string& prefix, Columns* columns) {
  for (const auto& [name, value] : line.items()) {
    if (value.is_number() && !IsLabel(name) && std::isfinite(value.get<double>()))
      (*columns)[prefix + name].push_back(value.get<double>());
    if (value.is_object() && prefix.empty()) AddNumbers(value, name + ".", columns);
  }
}

// What `ncclwatch_metric` has told: {"event_type": "metric", "details": {"name": ..., "value": ...}}.
bool AddReportedMetric(const LooseJson& line, Columns* columns) {
  const auto details = line.find("details");
  const auto type = line.find("event_type");
  if (type == line.end() || *type != "metric" || details == line.end() || !details->is_object()) return false;
  const auto value = details->find("value");
  if (value != details->end() && value->is_number())
    (*columns)[details->contains("name") && (*details)["name"].is_string() ? (*details)["name"].get<std::string>()
                                                                           : "metric"]
        .push_back(value->get<double>());
  return true;
}

// Aggregates are left out where single repetitions are there.
void AddGoogleBenchmark(const LooseJson& document, Side* side) {
  bool single = false;
  for (const LooseJson& one : document["benchmarks"])
    single = single || one.value("run_type", "iteration") == "iteration";
  std::map<std::pair<std::string, std::string>, std::pair<std::string, Samples>> all;
  for (const LooseJson& one : document["benchmarks"]) {
    if (!one.is_object() || (single && one.value("run_type", "iteration") != "iteration") ||
        one.value("error_occurred", false))
      continue;
    if (!single && one.value("aggregate_name", "") != "median") continue;
    const std::string name = one.value("run_name", one.value("name", "benchmark")), unit = one.value("time_unit", "ns");
    for (const auto& [key, value] : one.items()) {
      static const std::set<std::string> counts = {
          "iterations", "repetitions", "repetition_index", "family_index", "per_family_instance_index", "threads"};
      if (!value.is_number() || counts.contains(key)) continue;
      auto& [its_unit, samples] = all[{name, key}];
      its_unit = key.ends_with("_time") ? unit : "";
      samples.push_back(value.get<double>());
    }
  }
  for (auto& [key, values] : all)
    AddTrial(key.first + " " + key.second, values.first, BetterOf(key.second), std::move(values.second), side);
}

}  // namespace

absl::Status AddCsv(const std::string& path, Side* side) {
  analyzer::InputFile file(path);
  if (!file.status().ok()) return file.status();
  std::string line;
  if (!std::getline(file, line)) return absl::InvalidArgumentError(path + ": no header");
  const char separator = line.find('\t') != std::string::npos ? '\t' : line.find(';') != std::string::npos ? ';' : ',';
  while (!line.empty() && line.back() == '\r') line.pop_back();
  const std::vector<std::string> names = absl::StrSplit(line, separator);
  Columns columns;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, separator);
    for (std::size_t i = 0; i < names.size() && i < cells.size(); ++i)
      if (const auto value = NumberIn(cells[i]); value && !IsLabel(names[i])) columns[names[i]].push_back(*value);
  }
  if (columns.empty()) return absl::InvalidArgumentError(path + ": no column of numbers");
  AddAll(columns, side);
  return absl::OkStatus();
}

absl::Status AddJson(const std::string& path, Side* side) {
  const auto text = analyzer::ReadFile(path, std::uint64_t{1} << 30);
  if (!text.ok()) return text.status();
  const LooseJson whole = LooseJson::parse(*text, nullptr, false);
  if (whole.is_object() && whole.contains("benchmarks") && whole["benchmarks"].is_array()) {
    try {
      AddGoogleBenchmark(whole, side);
    } catch (const LooseJson::exception&) {
      return absl::InvalidArgumentError(path + ": not as Google Benchmark writes it");
    }
    return absl::OkStatus();
  }
  Columns columns;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const LooseJson one = LooseJson::parse(line, nullptr, false);
    if (one.is_object() && !AddReportedMetric(one, &columns)) AddNumbers(one, "", &columns);
  }
  if (columns.empty() && whole.is_array())
    for (const LooseJson& one : whole)
      if (one.is_object()) AddNumbers(one, "", &columns);
  if (columns.empty() && whole.is_object()) AddNumbers(whole, "", &columns);
  if (columns.empty()) return absl::InvalidArgumentError(path + ": neither CSV with a header, nor JSON with numbers");
  AddAll(columns, side);
  return absl::OkStatus();
}

}  // namespace ncclwatch::compare
