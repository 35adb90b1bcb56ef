// Ends that `ncclwatch run` stood by (reader/witness.h): joined to what the leaders saw, and put into the kernel's
// order.
#pragma once

#include <vector>

#include "core/view/clocks.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// The one that the observation is about, or null.
const reader::BoxImage* BoxOf(const std::vector<reader::BoxImage>& boxes, const reader::Observation& seen);

// Of ranks of MPI that were in the middle of it: of others, all of which a scheduler may end at once, the order tells
// nothing. Into a snapshot of these boxes with its leaders' observations. `judged`: its now_ns is that of a standing
// verdict and stays; else it is put off to the last end.
void AddWitness(const reader::Witness& witness, const std::vector<reader::BoxImage>& boxes, const Clocks& clocks,
                bool judged, Snapshot* snapshot);

// ProcessOutcome::order, and instants that do not go against it: a leader may have seen several ends at one look.
void OrderEnds(const reader::Witness& ends, std::vector<Process>* processes);

}  // namespace ncclwatch::diagnosis
