// Questions to other processes, each in a thread of its own that is left behind if it gets stuck.
#pragma once

#include <cstdint>

#include "watchdog/rundir/patience.h"

namespace ncclwatch::act {

std::int64_t Now_ns();  // CLOCK_MONOTONIC

// For all questions together they are waited for so long.
rundir::Patience InTime(int budget_ms);

}  // namespace ncclwatch::act
