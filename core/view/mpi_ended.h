// What is needed to judge a job of MPI that has come to its end: whether all is there, and told.
#pragma once

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// It is in MPI_Finalize, or has been; other threads of it may still be in other calls, which nobody will end.
bool HasCalledFinalize(const Process& process);
// All ranks of the job have called MPI_Finalize.
bool AllFinalized(const View& view);
// It has come back from it.
bool HasLeftFinalize(const reader::BoxImage& box);
// It is inside of it, where callbacks free what is left, and not for longer than those take.
bool MayStillFree(const View& view, const Process& process);
// Somebody whose calls are not all there, or come in no order.
bool HasIncompleteHistory(const Process& process);
// What each of its receives got. Of one whose request was given up nobody knows.
bool AllKnown(const Member& member);

}  // namespace ncclwatch::diagnosis
