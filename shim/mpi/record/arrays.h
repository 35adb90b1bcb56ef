// Collectives in which each rank may send another amount.
#pragma once

#include <algorithm>

#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/record/parts.h"

namespace ncclwatch::shim::mpi {

// What this rank alone sends or receives: the others need not agree about it.
inline void AmountOfOne(Call& call, std::uint64_t count, MPI_Datatype type) {
  Amount(call, count, type);
  call.signature = 0;
}

inline std::uint32_t RanksOf(const Call& call) {
  return call.index == format::kNoCommunicator ? 0 : call.box.communicators[call.index].size;
}

// An array with an amount for each rank, the same on all of them: the signatures are, not the counts.
template <class Counts>
void AmountOfAll(Call& call, Counts counts, MPI_Datatype type) {
  const std::uint32_t ranks = RanksOf(call);
  std::uint64_t sum = 0;
  std::uint64_t hash = ranks;
  bool known = counts && !call.inter;
  Amounts amounts;
  for (std::uint32_t i = 0; i < ranks && known; ++i) {
    const format::Part part = amounts.Of(counts[i], type);
    CheckCount(call, counts[i]);
    sum += static_cast<std::uint64_t>(counts[i]);
    hash = format::Mix(hash, part.what);
    known = part.what != 0;
  }
  Amount(call, sum, type);
  call.signature = known ? static_cast<std::uint32_t>(hash) | 1 : 0;
}

inline MPI_Datatype TypeFor(MPI_Datatype type, std::uint32_t) { return type; }
inline MPI_Datatype TypeFor(const MPI_Datatype* types, std::uint32_t rank) {
  return types ? types[rank] : MPI_DATATYPE_NULL;
}

// One for each rank. Their sum, in elements and in bytes, and the least if it is negative.
struct Total {
  std::int64_t least = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};
template <class Counts, class Type>
Total AddEach(Parts& parts, std::uint32_t ranks, Counts counts, Type type) {
  Total total;
  Amounts amounts;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    const format::Part part = counts ? amounts.Of(counts[i], TypeFor(type, i)) : format::Part{};
    parts.Add(part);
    if (counts) total.least = std::min(total.least, static_cast<std::int64_t>(counts[i]));
    total.count += counts && counts[i] > 0 ? static_cast<std::uint64_t>(counts[i]) : 0;
    total.bytes += part.bytes;
  }
  return total;
}

// In place nothing is said.
template <class Count>
void AddOne(Parts& parts, const void* buffer, Count count, MPI_Datatype type) {
  parts.Add(buffer == MPI_IN_PLACE ? format::Part{} : Amounts().Of(count, type));
}

}  // namespace ncclwatch::shim::mpi
