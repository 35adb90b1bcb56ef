// Who waits in MPI_Finalize for ranks that have not come to it.
#pragma once

#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// Comes last: adds edges only where nobody waits for anything else. Whom others wait for in a call, though it has come
// to MPI_Finalize, has left them there, and that says more.
void AddFinalize(const View& view, WaitGraph* graph);

}  // namespace ncclwatch::diagnosis
