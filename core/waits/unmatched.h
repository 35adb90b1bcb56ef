// Sends and receives whose partner has not made its call.
#pragma once

#include <cstdint>
#include <vector>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// One rank has sent to another, or receives from it, more often than the other one has made the matching call.
struct Unmatched {
  int comm = -1;
  const Member* owner = nullptr;
  const Member* peer = nullptr;
  bool send = false;                   // the owner's call is one
  std::uint64_t met = 0;               // such calls of the owner that have a partner
  std::uint64_t alone = 0;             // ... and that have none
  const reader::Call* call = nullptr;  // the first of those; null if the ring has lost it
};

// Of pairs of ranks that both count their messages.
std::vector<Unmatched> FindUnmatched(const View& view);

}  // namespace ncclwatch::diagnosis
