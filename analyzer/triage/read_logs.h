// Logs to their first cause, in one call.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "analyzer/triage/matcher.h"
#include "analyzer/triage/scan.h"
#include "analyzer/triage/verdict.h"

namespace ncclwatch::analyzer {

// The project's own rules, and those of these files in front of them.
absl::StatusOr<Matcher> MakeMatcher(const std::vector<std::string>& rule_files);
// By as many threads as there are cores. `progress`, which may be empty, is told how many bytes of the files are read.
std::vector<ScannedFile> ScanLogs(const Matcher& matcher, const std::vector<LogFile>& files,
                                  const std::function<void(std::uint64_t)>& progress);
// Of files that FindLogs() has found.
Triage TriageOf(const Matcher& matcher, const std::vector<LogFile>& files);

}  // namespace ncclwatch::analyzer
