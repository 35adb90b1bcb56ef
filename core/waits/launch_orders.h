// In which order the ranks have launched what their GPUs have not finished, and the cycles in that.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/view/view.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// One collective of one communicator, on all its ranks; or one message between two of them.
struct Instance {
  int comm = -1;
  std::int32_t from = -1, to = -1;  // of a message, ranks in the communicator
  std::uint64_t position = 0;
  auto operator<=>(const Instance&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
};

// On some node `first` lies before `second` on one stream and has not finished: `second` cannot begin there.
struct Order {
  Instance first, second;
  int node = -1;
  const reader::Call* first_call = nullptr;
  const reader::Call* second_call = nullptr;
  bool proven = true;  // and cannot end elsewhere, and `first` is known to be stuck by itself
};

struct Orders {
  std::vector<Order> plain;
  std::vector<Order> in_groups;  // of NCCL's own, on several communicators: the one or the other is true
};
Orders FindOrders(const View& view, const WaitGraph& graph);
// Of launches on any streams: true where the later stream waits for the earlier by an event. None is proven.
std::vector<Order> OrdersOverStreams(const View& view, const WaitGraph& graph);

// The orders of one cycle; empty if there is none.
std::vector<const Order*> Cycle(const std::vector<Order>& orders);
// A way through the plain orders from the second of `order` back to its first; empty if there is none.
std::vector<const Order*> WayBack(const std::vector<Order>& plain, const Order& order);

}  // namespace ncclwatch::diagnosis
