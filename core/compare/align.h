// Step 2: per communicator, position by position, the calls of its members compared.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// Members (indices into CommView::members) that made the same call at a position.
struct Side {
  std::vector<int> members;
  const reader::Call* call = nullptr;  // of the first of them
};

struct Difference {
  std::uint64_t position = 0;
  std::vector<Side> sides;         // at least two, the largest first
  bool zero_count = false;         // one side made an empty call, which takes no position
  bool other_operation = false;    // else the same operation with other arguments
  bool tie = false;                // no side is larger than all others
  bool everybody_arrived = false;  // of the members that can still arrive
  bool surely_first = false;       // what was called right before is held and agrees; else an earlier one may be lost
  std::int64_t began_ns = 0;       // when the second side arrived
};

// The first difference that NCCL would not accept, as far as the rings reach back.
std::optional<Difference> FirstDifference(const View& view, const CommView& comm);

}  // namespace ncclwatch::diagnosis
