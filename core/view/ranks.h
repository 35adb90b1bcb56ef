// Which job rank each process, or each member of a communicator, is.
#pragma once

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// Sets nodes, their memberships, the members' nodes, the communicators' job ranks and the size of the job.
//
// One member per process and communicator: the launcher's rank; processes without one take their rank in the largest
// root communicator. Several members in one process (ncclCommInitAll, threads as ranks): the ranks of the largest root
// communicator, for everybody; the other communicators' members are told apart by their device.
void AssignRanks(View* view);

}  // namespace ncclwatch::diagnosis
