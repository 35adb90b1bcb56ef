// What a process has called, as a sequence, and the steps of its training in it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/finding.h"
#include "core/steps/period.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// Of a communicator, among those of its process.
inline std::uint64_t KeyOf(std::uint32_t index, std::uint32_t generation) {
  return std::uint64_t{generation} << 32 | index;
}

struct History {
  std::vector<const reader::Call*> calls;  // collectives and messages on all communicators, in the order of the calls
  std::vector<reader::Call> read;          // some of them: what a sifted image had left out
  bool whole = false;                      // from the first call of the process on
};
// All that is known of one rank; the only place that asks for more than its newest calls.
History HistoryOf(const View& view, const Node& node);

// Two calls are one symbol if NCCL would take the one for the other and they are made on one communicator. Sizes of
// messages differ from step to step where experts get as many tokens as come; without `counts` those of collectives
// do not count either.
std::vector<Symbol> SymbolsOf(const View& view, const Node& node, const std::vector<const reader::Call*>& calls,
                              bool counts = true);

// Of one call on the communicator with this identity.
Symbol SymbolOf(const reader::Call& call, std::uint64_t communicator, bool counts);

// In which step of the training each finding's call was made. Looks at one rank of each.
void AddSteps(const View& view, std::vector<Finding>* findings);

}  // namespace ncclwatch::diagnosis
