// The part of step 3 that is about collectives.
#pragma once

#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// From that position on the communicator is explained already.
void AddCollectives(const View& view, int comm_index, std::uint64_t explained_from, WaitGraph* graph);

}  // namespace ncclwatch::diagnosis
