// `replay --merge-below`: as if small collectives that follow one another had been one.
#pragma once

#include <cstdint>

#include "analyzer/edit/job.h"

namespace ncclwatch::analyzer {

// Collectives of one kind (operation, communicator, type, reduction, root, stream) that a rank calls one after the
// other, each below `bytes`, become one in the place of the last of them, of at least `bytes` where there are so many.
// Those inside groups and those with a request stay. Returns how many calls are gone.
std::uint64_t MergeBelow(std::uint64_t bytes, Job* job);

}  // namespace ncclwatch::analyzer
