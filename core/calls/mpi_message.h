// Sends, receives and probes of MPI: what one is, and which messages it takes.
#pragma once

#include <cstdint>

#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

// MPI_Sendrecv and its like: two records of this function, the send first, joined by their group.
bool IsExchange(functions::Function function);
bool IsSecondHalf(const reader::Call& call);   // ... of which this is the receive
bool IsSend(const reader::Call& call);         // of MPI
bool IsReceive(const reader::Call& call);      // of MPI
bool IsMatched(functions::Function function);  // a receive of a message that a probe has taken before
// MPI_Cancel was called for it, and its end has told that it was in time. Before that nobody knows.
bool NeverTookPlace(const reader::Call& call);
// A receive (or probe) that no message has met so far.
bool IsOpen(const reader::Call& receive);
// Whether a receive or probe would take a message with this tag from this sender.
bool Takes(const reader::Call& receive, std::uint32_t sender, std::int32_t tag);

}  // namespace ncclwatch::diagnosis
