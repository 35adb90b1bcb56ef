// Accesses to the memory of windows, by what their records say (format/mpi_record.h).
#pragma once

#include <cstdint>
#include <optional>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

bool IsAccess(const reader::Call& call);

enum class Does { kReads, kWrites, kUpdates };  // updates: each element as a whole, in one go with what it was
Does WhatItDoes(const reader::Call& call);
// Changes nothing: an update by MPI_NO_OP neither.
bool OnlyReads(const reader::Call& call);
std::uint8_t NoOperator();  // MPI_NO_OP

// Of the target's memory.
struct Extent {
  std::uint64_t begin = 0, end = 0;
};
// Nothing where it has gaps, where the target's unit is not known, or where there is no target.
std::optional<Extent> ExtentOf(const CommView& comm, const reader::Call& access);
// Bytes of a window that lie at one of its ranks.
std::optional<std::uint64_t> MemoryOf(const Member& owner);

}  // namespace ncclwatch::diagnosis
