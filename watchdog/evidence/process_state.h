// What a process that shows no sign of life is doing, from outside.
#pragma once

#include <cstdint>

#include "ncclwatch/format/observation.h"

namespace ncclwatch::evidence {

// Looks at /proc and the freezer, for a process of the same pid namespace and boot. kGone: no such process, or a
// zombie (the lock is not looked at); kRunning: nothing holds it.
format::Observed StateOf(std::int32_t pid, std::uint64_t start_time);

}  // namespace ncclwatch::evidence
