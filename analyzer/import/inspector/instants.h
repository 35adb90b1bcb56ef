// When the operations of one member were made, as well as its lines tell.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/import/inspector/operation.h"

namespace ncclwatch::analyzer::import::inspector {

enum class Timing {
  kCalled,   // each line says it (NCCL_INSPECTOR_DUMP_VERBOSE)
  kWritten,  // lines were written again and again, and say when
  kNone,     // all was written at once, or at a few moments: only the order is known
};

Timing TimingOf(const std::vector<Operation>& operations);
// Of each, ascending; in CLOCK_REALTIME, and of kNone as parts of a second: the operations spread evenly over it.
std::vector<std::int64_t> InstantsOf(const std::vector<Operation>& operations, Timing timing);

}  // namespace ncclwatch::analyzer::import::inspector
