// The part of the wait-for graph that sends and receives make. Used to see who waits for whom, so that a victim is
// never accused; what is wrong with a pair of messages themselves is not judged here.
#pragma once

#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

void AddMessages(const View& view, WaitGraph* graph);

}  // namespace ncclwatch::diagnosis
