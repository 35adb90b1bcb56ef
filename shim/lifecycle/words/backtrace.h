// Where a thread was when a signal found it, and who had called that. Async-signal-safe; one thread at a time.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "ncclwatch/format/last_words.h"

namespace ncclwatch::shim {

struct Box;

// Fills in at most `most` frames, the first of which is the context's own: addresses, and offsets in their modules,
// whose names are put into the box's strings. The number of frames.
std::uint32_t Backtrace(Box& box, const ucontext_t& context, std::uint32_t most, format::Frame* frames);

}  // namespace ncclwatch::shim
