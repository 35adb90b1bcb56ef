// A message that is missing, or a receive too many, as the ranks' own earlier rounds show: between two collectives each
// has always sent and received as many.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/view/view.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

struct OddRound {
  const Wait* wait = nullptr;           // for the message
  const CommView* rounds_of = nullptr;  // whose collectives end a round
  bool is_missing = false;              // a send of wait->other; else the waiter has received once too often
  std::size_t usual = 0, now = 0;       // sends of the one, receives of the other
};

// Of a cycle in which one waits for a message, and who should send it waits in a collective. None: the earlier rounds,
// at least two and the one in which the ring begins, do not show whose fault it is.
std::optional<OddRound> FindOddRound(const View& view, const std::vector<const Wait*>& cycle);

}  // namespace ncclwatch::diagnosis
