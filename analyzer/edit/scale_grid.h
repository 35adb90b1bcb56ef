// `replay --scale` of ranks that exchange messages with their neighbours in a grid: the same grid, with more ranks.
#pragma once

#include <absl/status/status.h>

#include "analyzer/edit/job.h"

namespace ncclwatch::analyzer {

// Whether there are messages on a communicator of all ranks.
bool SendsAmongAll(const Job& job);

// The grid of one to three dimensions is found from who sends to whom. A rank of the larger one makes the calls of the
// recorded rank at the like place: at the same edges, or within. Failed precondition, with the reason: there is no such
// grid, or none of its sides shows what a rank between two neighbours does.
absl::Status ScaleGridTo(int ranks, Job* job);

}  // namespace ncclwatch::analyzer
