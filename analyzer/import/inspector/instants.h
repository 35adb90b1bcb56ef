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
// Of each, ascending; in CLOCK_REALTIME, and of kNone as parts of a second that stands for the job: the operations
// spread evenly over what of it their numbers span.
std::vector<std::int64_t> InstantsOf(const std::vector<Operation>& operations, Timing timing);
// Where those operations, or some of them, lie among the steps. Each process flushes at moments of its own, so the
// instants of one operation differ by up to an interval: over the flushes around it that evens out, as a step has
// equally many operations each time.
std::vector<double> Evened(const std::vector<double>& places, const std::vector<Operation>& operations, Timing timing);

}  // namespace ncclwatch::analyzer::import::inspector
