// A verdict on what NCCL Inspector recorded of a job: what slows it, and how much of it was seen.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/slow/topology.h"

namespace ncclwatch::analyzer {

// Its files among what is to be diagnosed; empty if anything else is among it.
std::vector<std::string> InspectorFiles(const std::vector<std::string>& paths);

struct InspectorVerdict {
  diagnosis::Diagnosis diagnosis;
  std::vector<std::string> complaints;  // "FILE:LINE: what is wrong"
};
// NotFound: nothing in them can be used.
absl::StatusOr<InspectorVerdict> DiagnoseInspector(const std::vector<std::string>& files,
                                                   const diagnosis::Topology& topology);

}  // namespace ncclwatch::analyzer
