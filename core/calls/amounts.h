// Collectives in which each rank says for itself what it sends, and to whom it gives how much room: the v- and
// w-variants of MPI, and all of neighbours. What one sends the other has to expect, neither more nor less nor of other
// basic types.
#pragma once

#include <cstdint>

#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

// Its parts come in twos: which neighbour, and the amount. One may be a neighbour in several ways.
bool IsOfNeighbours(const reader::Call& call);
struct Edge {
  std::uint32_t rank = 0;  // at the other end
  const format::Part* amount = nullptr;
};
std::vector<Edge> EdgesOf(const std::vector<format::Part>& parts);
// Whatever the order of the edges between two ranks is: an amount that is sent and not expected, and one that is
// expected and not sent. One of them null: of an edge that the other rank has not. Both null: there is none, or that is
// not known.
struct OddEdge {
  const format::Part* sent = nullptr;
  const format::Part* expected = nullptr;
};
OddEdge OddEdgeBetween(const reader::CallParts& sender, std::uint32_t sender_rank, const reader::CallParts& receiver,
                       std::uint32_t receiver_rank);

// Of other calls. Null: the call says nothing about that rank. The part says itself whether it is known.
const format::Part* SentTo(const reader::CallParts& parts, std::uint32_t rank);
const format::Part* ReceivedFrom(const reader::CallParts& parts, std::uint32_t rank);

enum class PartClash {
  kNone,
  kLikely,  // other names of what may be the same: MPI_BYTE, types that this machine does not tell apart
  kTypes,
  kSizes,
  kEdge,  // one of the two alone has it
};
PartClash ClashOf(const format::Part& sent, const format::Part& received);

// What a rank adds to a sum over all ranks that is 0 where nothing clashes. known: it says so of everybody.
struct PairSum {
  std::uint64_t sum = 0;
  bool known = true;
};
PairSum SumOf(const reader::CallParts& parts, std::uint32_t rank);

}  // namespace ncclwatch::diagnosis
