// To which of several objects a word belongs: pointers are followed, breadth first, from all of them at once, through
// Python and C++ alike, whose layouts need not be known.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <vector>

#include "analyzer/stacks/python/registered.h"
#include "watchdog/cpython/objects.h"

namespace ncclwatch::stacks::python {

using namespace cpython;

// For each of `words` that is found, the place in `objects` of the one that has it nearest. What two have equally near
// (a store, a class) belongs to none of them, and neither does what is only found through it. Ends for any memory.
absl::flat_hash_map<std::uint64_t, std::size_t> Owners(Reader* memory, Objects* objects, const Registered& registered,
                                                       const std::vector<std::uint64_t>& origins,
                                                       const std::vector<std::uint64_t>& words);

}  // namespace ncclwatch::stacks::python
