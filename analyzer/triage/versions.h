// Which versions the logs name, and which reported faults of these versions show the symptom of the first cause.
#pragma once

#include <vector>

#include "analyzer/known_bad/known_bad.h"
#include "analyzer/triage/log_file.h"
#include "analyzer/triage/verdict.h"

namespace ncclwatch::analyzer {

// Versions stand in the first lines of logs.
Versions VersionsIn(const std::vector<LogFile>& files);

// Entries that fit a version and the first cause. Nothing failed: none.
std::vector<KnownBad> KnownBadOf(const std::vector<KnownBad>& entries, Versions versions, const Triage& triage);

}  // namespace ncclwatch::analyzer
