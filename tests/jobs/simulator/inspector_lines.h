// What NCCL Inspector would write about a job.
#pragma once

#include <string>

#include "tests/jobs/simulator/generate.h"

namespace ncclwatch::jobs {

std::string HostOf(const Generated& made, int rank);

// The file of one process: an operation a line, written every second.
std::string InspectorLines(const Generated& made, int rank);

}  // namespace ncclwatch::jobs
