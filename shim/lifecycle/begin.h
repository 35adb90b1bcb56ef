// Everything that happens once, at the first recorded call of a process: settings, run directory, black box, watchdog.
#pragma once

namespace ncclwatch::shim {

struct Box;

// Null: this process is not watched, and why has been said if it is an error. May throw for want of memory.
Box* Begin();

}  // namespace ncclwatch::shim
