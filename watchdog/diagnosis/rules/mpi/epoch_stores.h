// What the owner of a window's memory has changed itself between two fences (format/stores.h), and another rank has got
// between the same two.
#pragma once

#include <optional>

#include "watchdog/diagnosis/mpi/accesses.h"
#include "watchdog/diagnosis/waits/waits.h"

namespace ncclwatch::diagnosis {

struct StoreConflict {
  const Member* owner = nullptr;
  const reader::Call* fence = nullptr;  // the owner's, that ends the epoch
  const Member* reader = nullptr;
  const reader::Call* get = nullptr;
  Extent both;  // what has changed of what was got, the first of it
};

// The first one, in the order of the owner's records. `pairs` counts what was compared.
std::optional<StoreConflict> FindStoreConflict(const View& view, const CommView& comm, int index,
                                               const WaitGraph& graph, std::uint64_t most_pairs, std::uint64_t* pairs);

}  // namespace ncclwatch::diagnosis
