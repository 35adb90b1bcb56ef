// `replay --scale`: a recording continued to more ranks, where its pattern says how.
#pragma once

#include <absl/status/status.h>

#include "analyzer/edit/job.h"

namespace ncclwatch::analyzer {

// The job so many times side by side, on hosts of their own. A communicator of all ranks grows, and so does one of
// equally spaced ranks, one of each block (data parallel); one of ranks that follow one another is made again for each
// copy (tensor parallel). Ranks that exchange messages with neighbours in a grid become a larger grid. Failed
// precondition, with the reason: the pattern cannot be continued.
absl::Status ScaleTo(int ranks, Job* job);

}  // namespace ncclwatch::analyzer
