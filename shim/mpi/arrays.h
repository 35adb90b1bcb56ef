// Collectives in which each rank may send another amount.
#pragma once

#include "shim/mpi/datatypes.h"

namespace ncclwatch::shim::mpi {

// What this rank alone sends or receives: the others need not agree about it.
inline void AmountOfOne(Call& call, std::uint64_t count, MPI_Datatype type) {
  Amount(call, count, type);
  call.signature = 0;
}

// An array with an amount for each rank, the same on all of them.
template <class Counts>
void AmountOfAll(Call& call, Counts counts, MPI_Datatype type) {
  const std::uint32_t ranks = call.index == format::kNoCommunicator ? 0 : call.box.communicators[call.index].size;
  std::uint64_t sum = 0;
  std::uint64_t hash = ranks;
  for (std::uint32_t i = 0; counts && i < ranks && !call.inter; ++i) {
    sum += static_cast<std::uint64_t>(counts[i]);
    hash = format::Mix(hash, static_cast<std::uint64_t>(counts[i]));
  }
  Amount(call, sum, type);
  // Equal counts of equal types; the sum alone would not tell where they differ.
  if (call.signature) call.signature = static_cast<std::uint32_t>(format::Mix(hash, SignatureOf(1, type)));
}

}  // namespace ncclwatch::shim::mpi
