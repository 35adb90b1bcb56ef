// Runs a command for both sides in turn: A B B A A B ..., so that what drifts meets both.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "analyzer/compare/side.h"

namespace ncclwatch::compare {

// `{}` in the words stands for the side's name; NCCLWATCH_SIDE says before or after. Each run's wall-clock time is the
// metric `run_time`; numbers in lines of JSON that the command prints are metrics too. A run that fails ends all.
absl::StatusOr<std::pair<Side, Side>> RunTrials(const std::string& before, const std::string& after, int trials,
                                                const std::vector<std::string>& command);

// Status of a shell command in which `{}` is the path of a side; the path is appended where there is no `{}`.
int RunProblem(const std::string& command, const std::string& path, const char* side);

}  // namespace ncclwatch::compare
