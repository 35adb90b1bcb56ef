// Collectives in which each rank says for itself what it sends, and to whom it gives how much room: the v- and
// w-variants of MPI. What one sends the other has to expect, neither more nor less nor of other basic types.
#pragma once

#include <cstdint>

#include "watchdog/reader/image.h"

namespace ncclwatch::diagnosis {

// Null: the call says nothing about that rank. The part says itself whether it is known.
const format::Part* SentTo(const reader::CallParts& parts, std::uint32_t rank);
const format::Part* ReceivedFrom(const reader::CallParts& parts, std::uint32_t rank);

enum class PartClash {
  kNone,
  kLikely,  // other names of what may be the same: MPI_BYTE, types that this machine does not tell apart
  kTypes,
  kSizes,
};
PartClash ClashOf(const format::Part& sent, const format::Part& received);

// What a rank adds to a sum over all ranks that is 0 where nothing clashes. known: it says so of everybody.
struct PairSum {
  std::uint64_t sum = 0;
  bool known = true;
};
PairSum SumOf(const reader::CallParts& parts, std::uint32_t rank);

}  // namespace ncclwatch::diagnosis
