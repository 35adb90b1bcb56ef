// The page of `ncclwatch report`: what diagnose, trace and stats tell of a job, in one file that needs nothing else.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/jobs/locate.h"
#include "analyzer/recording/recording.h"
#include "core/model/finding.h"

namespace ncclwatch::analyzer {

struct JobReport {
  std::string name;  // of the job's directory, as it was given
  Located located;
  diagnosis::Diagnosis verdict;
  std::vector<reader::Failure> failures;  // also of segments
};

// Gets the parts of the page, in order. After a false, which says that it could not write, it gets no more.
using WritePart = std::function<bool(std::string_view)>;

// Of a job that was looked at from outside: `stacks` as StacksSection() gives them, and no calls.
absl::Status WriteReport(std::string_view name, const diagnosis::Diagnosis& verdict,
                         const nlohmann::ordered_json& stacks, const WritePart& write);

// Reads the located job of `report` and writes its page. Not found: there is no black box.
absl::Status WriteReport(std::string_view command, const WritePart& write, JobReport* report);

}  // namespace ncclwatch::analyzer
