// Edges of the wait-for graph for the epochs of windows: MPI_Win_start and MPI_Win_complete wait for the MPI_Win_post
// of those whom they name, MPI_Win_wait for their MPI_Win_complete, and who wants a lock for those who have one that
// excludes it. Fences are collectives.
#pragma once

#include <string>

#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

void AddEpochs(const View& view, WaitGraph* graph);

// The call of the other rank that would end the wait.
std::string EpochCallAwaited(const Wait& wait);
// MPI may let the others of these calls go on.
bool AlwaysWaits(functions::Function function);
bool IsOfLocks(functions::Function function);

}  // namespace ncclwatch::diagnosis
