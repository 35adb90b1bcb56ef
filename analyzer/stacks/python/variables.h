// Local variables of a frame.
#pragma once

#include <cstdint>

#include "analyzer/stacks/python/python.h"
#include "watchdog/cpython/objects.h"

namespace ncclwatch::stacks::python {

// Fills in what Want::kVariables asks for. `to` has its function. A frame that runs meanwhile may show values of
// several moments.
void ReadVariables(Reader* memory, cpython::Objects* objects, std::uint64_t frame, std::uint64_t code, Frame* to);

}  // namespace ncclwatch::stacks::python
