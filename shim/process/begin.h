// Everything that happens once, at the first recorded call of a process: settings, run directory, black box, watchdog.
#pragma once

#include <cstdint>

namespace ncclwatch::shim {

struct Box;

// Makes the black box for a process whose first recorded call goes to `library`, then asks `decide` whether it is still
// wanted: only then does anybody else see it. Null: this process is not watched, and why has been said if it is an
// error. May throw for want of memory.
Box* Begin(std::uint32_t library, bool (*decide)(Box*));

}  // namespace ncclwatch::shim
