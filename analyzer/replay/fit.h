// The costs of MPI's communication, from what a recording says of it.
#pragma once

#include <absl/status/statusor.h>

#include "analyzer/recording/recording.h"
#include "simulation/workload.h"

namespace ncclwatch::analyzer {

// LogGP's parameters: o from calls that return at once; L and G by least squares over the sizes of messages whose
// receiver was there first; the step of a tree from collectives, counted from their last rank's call. What the
// recording has no example of stays as it is. An error: it has no call of MPI that tells anything.
absl::StatusOr<simulation::Costs> FitCosts(const Recording& recording);

}  // namespace ncclwatch::analyzer
