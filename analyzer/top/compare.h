// Who is behind whom, and who came last.
#pragma once

#include "analyzer/top/job.h"

namespace ncclwatch::analyzer::top {

// Sorts processes and members, and fills in what several of them tell together: Member::behind, the communicators,
// the ranks that are not shown.
void Compare(Job* job);

}  // namespace ncclwatch::analyzer::top
