// Start marks (NCCLWATCH_GPU=both): on the stream right before what a call launches.
#pragma once

#include "shim/base/thread.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim {

// After the call was recorded as entered, before it is passed on. Calls of a group are marked by its outermost end.
void MarkStarts(Box& box, const Thread& thread, const Call& call);

}  // namespace ncclwatch::shim
