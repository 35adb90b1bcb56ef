// The steps of a recorded job: how long, in which parts, and which calls.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/recording/recording.h"
#include "core/steps/step_table.h"

namespace ncclwatch::analyzer {

struct JobSteps {
  diagnosis::StepTable table;
  std::int64_t realtime_ns = 0;  // to be added to its instants: CLOCK_REALTIME
};

// Of the newest calls where a ring has lost others. Not found: no loop is found in its calls.
absl::StatusOr<JobSteps> StepsOf(const Recording& recording);
absl::StatusOr<JobSteps> StepsOf(std::vector<reader::BoxImage> boxes);

// "100..110", both included; "100..", "..110", "100". None if it is no such range.
struct StepRange {
  std::uint64_t first = 0, last = UINT64_MAX;
};
std::optional<StepRange> ParseSteps(const std::string& text);

// By rank: the calls [first, second) of these steps. Not found: it has none of them.
using CallRanges = std::map<int, std::pair<std::uint64_t, std::uint64_t>>;
absl::StatusOr<CallRanges> CallsOfSteps(const Recording& recording, StepRange range);

// One step, of its parts the median over the ranks.
struct StepSummary {
  std::uint64_t number = 0;
  std::int64_t began_ns = 0;  // CLOCK_REALTIME
  std::int64_t duration_ns = 0, compute_ns = 0, exposed_ns = 0, wait_ns = 0;
  int last = -1;  // the rank that was waited for; -1: none
  std::int64_t late_ns = 0;
};
std::vector<StepSummary> SummariesOf(const JobSteps& steps);

// In seconds, by number: the median over the ranks.
std::map<std::uint64_t, double> DurationsOf(const JobSteps& steps);

nlohmann::ordered_json StepsJson(const JobSteps& steps);
// The newest `most` steps (0: all), with the median over the ranks of each part.
std::string StepsText(const JobSteps& steps, std::size_t most);

}  // namespace ncclwatch::analyzer
