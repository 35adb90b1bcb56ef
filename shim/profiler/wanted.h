// Which calls are timed: those of a sample, as long as the interface's measured cost allows it.
#pragma once

#include "shim/black_box/box.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim::profiler {

bool TooCostly();
bool IsWanted(Box& box, const Call& call);

}  // namespace ncclwatch::shim::profiler
