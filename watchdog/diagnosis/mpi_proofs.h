// Which waits of MPI's calls only the other rank can end, whatever MPI does, and which ranks therefore never go on.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "watchdog/diagnosis/waits.h"

namespace ncclwatch::diagnosis {

// What MPI does by itself takes microseconds, but its rank may have to wait for a processor: a send that is buffered, a
// fence that need not wait, a message that is there.
inline constexpr std::int64_t kHeldNs = 500'000'000;
// Every MPI takes as little as this into a buffer, if it has one left.
inline constexpr std::uint64_t kAlwaysBuffered = 1024;

// False: a standard send that may lie in a buffer, while what is awaited with it by the same call leads elsewhere and
// is what holds.
bool MayHold(const View& view, const WaitGraph& graph, const Wait& wait, const std::set<int>& others);
// It leads to one of the others, and if none of those ever goes on, the waiter does not either.
bool Binds(const View& view, const WaitGraph& graph, const Wait& wait, const std::set<int>& others);
// Those of them that wait for one another in ways that are proven; none: a cycle of such waits does not exist.
std::vector<int> ProvenAmong(const View& view, const WaitGraph& graph, const std::vector<int>& nodes);
// It is proven that none of the cycle ever goes on, whatever others do.
bool IsClosed(const View& view, const WaitGraph& graph, const std::vector<const Wait*>& cycle,
              const std::vector<int>& deadlocked);

}  // namespace ncclwatch::diagnosis
