// What the program has told last (annotate.h) is written before it ends.
#pragma once

namespace ncclwatch::shim {

// Waits a moment for the watchdog, which writes it; not at all where the program has told nothing lately.
void AwaitEvents();

}  // namespace ncclwatch::shim
