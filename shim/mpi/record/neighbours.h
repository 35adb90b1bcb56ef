// Collectives of neighbours: with whom a rank has an edge, and what goes over each.
#pragma once

#include "shim/mpi/record/arrays.h"

namespace ncclwatch::shim::mpi {

// In the order of the blocks of a buffer, MPI_PROC_NULL where there is nobody.
struct Neighbours {
  static constexpr std::uint32_t kMost = 256;
  bool known = false;  // false: it has no topology, or more than kMost of either
  std::uint32_t sources = 0, destinations = 0;
  int from[kMost];
  int to[kMost];
};
// Asks MPI, about a communicator that is known to be good; nothing is sent for it.
void FindNeighbours(const Call& call, MPI_Comm comm, Neighbours* neighbours);

template <class Count>
std::int64_t CountFor(Count count, std::uint32_t) requires std::is_integral_v<Count> {
  return static_cast<std::int64_t>(count);
}
template <class Count>
std::int64_t CountFor(const Count* counts, std::uint32_t neighbour) {
  return counts ? static_cast<std::int64_t>(counts[neighbour]) : 0;
}

// Two parts for each: who it is, and the amount.
template <class Counts, class Type>
std::int64_t AddNeighbours(Parts& parts, const int* ranks, std::uint32_t number, Counts counts, Type type) {
  std::int64_t least = 0;
  Amounts amounts;
  for (std::uint32_t i = 0; i < number; ++i) {
    if (ranks[i] < 0) continue;
    const std::int64_t count = CountFor(counts, i);
    parts.Add({static_cast<std::uint32_t>(ranks[i]), format::kNoType, 0, 0});
    parts.Add(amounts.Of(count, TypeFor(type, i)));
    least = std::min(least, count);
  }
  return least;
}

inline std::uint32_t Living(const int* ranks, std::uint32_t number) {
  return static_cast<std::uint32_t>(std::count_if(ranks, ranks + number, [](int rank) { return rank >= 0; }));
}

template <class Sent, class SentType, class Received, class ReceivedType>
void TellNeighbours(Call& call, MPI_Comm comm, Sent sent, SentType sent_type, Received received,
                    ReceivedType received_type) {
  Neighbours with;
  FindNeighbours(call, comm, &with);
  if (!with.known) return;
  Parts parts(call, 2 * Living(with.to, with.destinations), 2 * Living(with.from, with.sources));
  const std::int64_t least = AddNeighbours(parts, with.to, with.destinations, sent, sent_type);
  const std::int64_t least_room = AddNeighbours(parts, with.from, with.sources, received, received_type);
  parts.Done();
  CheckCount(call, std::min(least, least_room));
}

}  // namespace ncclwatch::shim::mpi
