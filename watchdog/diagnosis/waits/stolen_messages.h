// Edges of the wait-for graph for a rank that stands in a wait although there is a message for each of its receives:
// a wildcard receive has taken what a later one needs, which names its sender. Which message a receive has got is told
// only when its wait is over, so that this is known by time alone.
#pragma once

#include "watchdog/diagnosis/mpi/channels.h"
#include "watchdog/diagnosis/waits/waits.h"

namespace ncclwatch::diagnosis {

// Once all other waits for messages and collectives are in the graph.
void AddStolenMessages(const View& view, const Channels& channels, WaitGraph* graph);

}  // namespace ncclwatch::diagnosis
