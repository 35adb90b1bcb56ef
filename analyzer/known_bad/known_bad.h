// Versions of NCCL, torch and drivers with a fault that somebody has reported publicly. versions.toml lists them.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ncclwatch::analyzer {

struct KnownBad {
  std::string id;
  std::string component;  // "nccl", "torch", "driver", "cuda"
  std::string from, to;   // versions, inclusive
  // Rules or categories of `ncclwatch triage`, and checks of `ncclwatch doctor`, that show the fault. "silence": a job
  // that stopped writing.
  std::vector<std::string> symptoms, checks;
  std::string text;     // RE2 that the line of the symptom matches; empty: any line
  std::string seen;     // RE2 that the output of the check matches; empty: any output
  std::string report;   // address
  std::string summary;  // a sentence
};

std::string_view OwnKnownBad();  // the text of versions.toml
// The project's own entries, and those of these files in front of them. Errors name file and entry.
absl::StatusOr<std::vector<KnownBad>> ReadKnownBad(const std::vector<std::string>& files);

// Component and version: {"nccl", "2.28.9"}.
using Versions = std::set<std::pair<std::string, std::string>>;
// That a text names: "NCCL version 2.19.3+cuda12.1", "PyTorch version: 2.6.0", "Driver Version: 550.54.15".
void AddVersionsIn(std::string_view text, Versions* versions);

// Whether one of the versions is in the entry's range.
bool HasVersion(const KnownBad& entry, const Versions& versions);
bool Matches(const std::string& pattern, std::string_view text);  // an empty pattern matches any text

nlohmann::ordered_json KnownBadJson(const std::vector<KnownBad>& entries);

}  // namespace ncclwatch::analyzer
