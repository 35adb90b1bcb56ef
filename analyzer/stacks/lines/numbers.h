// Whole numbers among the local variables of a native frame, as its debug information (DWARF) describes them.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::stacks {

// Of the function, and of those inlined there, at a link-time address of `unit`. A variable is left out if its value
// does not follow from the registers that are known and from memory.
std::vector<Frame::Variable> NumbersIn(Dwarf_Die* unit, std::uint64_t address, const Frame& frame, Reader* memory);

}  // namespace ncclwatch::stacks
