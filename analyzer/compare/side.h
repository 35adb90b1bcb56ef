// What is compared: one run, or several trials of one.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "analyzer/compare/bootstrap.h"

namespace ncclwatch::compare {

enum class Better { kUnknown, kLower, kHigher };

struct Metric {
  std::string unit;
  Better better = Better::kUnknown;
  std::vector<Samples> trials;
};

struct Problem {  // a finding of a run
  std::string kind, summary;
};

struct Side {
  std::string name;                // as the user wrote it
  std::vector<std::string> paths;  // a path a trial
  std::map<std::string, Metric> metrics;
  std::map<std::string, std::vector<std::string>> environment;  // what, values
  std::vector<Problem> problems;
  std::vector<std::string> notes;  // what was not looked at, and why
};

// "A1,A2,A3" or one path. A path is a run directory or recording, CSV with a header, JSON lines, or Google Benchmark's
// JSON.
absl::StatusOr<Side> ReadSide(const std::string& words);

// From the name, as people name such things: "step_time", "items_per_second", "busbw".
Better BetterOf(const std::string& name);

// Adds a trial's values of one metric; warm-up is left out before. The trial is that of `side.paths.back()`.
void AddTrial(const std::string& name, const std::string& unit, Better better, Samples samples, Side* side);

// From files.
absl::Status AddCsv(const std::string& path, Side* side);
absl::Status AddJson(const std::string& path, Side* side);  // lines, or Google Benchmark's
// From what ncclwatch recorded: steps and their parts, calls, the program's own numbers, findings, environment.
absl::Status AddRun(const std::string& path, Side* side);

}  // namespace ncclwatch::compare
