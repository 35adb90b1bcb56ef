// Calls that make communicators, windows and files of MPI, and that all ranks of the communicator which they are made
// from must make in the same order: the n-th of one rank is the n-th of the others.
#pragma once

#include <cstdint>

#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

bool MakesWindowOrFile(functions::Function function);
// Its position is its ordinal on the communicator.
bool HasOrdinal(const reader::Call& call);

// What must be equal on all ranks.
struct Creation {
  functions::Function operation{};
  std::uint64_t collectives = 0;  // that were called on the communicator before
  bool operator==(const Creation&) const = default;
};
Creation CreationOf(const reader::Call& call);
// A hash of the arguments in which all ranks must agree, 0: none are known, or this rank need not.
std::uint32_t ArgumentsHash(const reader::Call& call);

}  // namespace ncclwatch::diagnosis
