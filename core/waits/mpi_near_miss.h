// Messages that pass by the receives that wait for them: under way, taken by nobody, and one thing about them is other
// than what is waited for.
#pragma once

#include <optional>
#include <vector>

#include "core/mpi/channels.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// A message under way that nobody takes, between the two ends of one of the waits: it was meant for it.
struct NearMissMessage {
  const Member* sender = nullptr;
  const Member* receiver = nullptr;
  const CommView* sent_on = nullptr;
  const CommView* waited_on = nullptr;
  const reader::Call* send = nullptr;
  const reader::Call* receive = nullptr;
};
// Of one of the waits of the cycle.
std::optional<NearMissMessage> FindNearMissMessage(const View& view, const Channels& channels, const WaitGraph& graph,
                                                   const std::vector<const Wait*>& cycle);
const Member* InComm(const CommView& comm, int node);

}  // namespace ncclwatch::diagnosis
