// Edges of the wait-for graph for the messages of MPI: a receive waits for those who may send to it, all of which would
// do (`choice`), a send that is held for its receiver.
#pragma once

#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// From when on its rank has been held by this call, or by the wait for its request.
std::int64_t HeldSince(const View& view, const Member& member, const reader::Call& call);
void AddMessagesOfMpi(const View& view, WaitGraph* graph);

}  // namespace ncclwatch::diagnosis
