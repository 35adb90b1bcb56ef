#include "core/view/peer_counts.h"

#include <algorithm>

namespace ncclwatch::diagnosis {

PeerCounts::Key PeerCounts::KeyOf(std::uint32_t communicator, std::uint32_t generation, std::uint32_t peer) {
  return {communicator, generation & 0xffffffu, peer};
}

PeerCounts::PeerCounts(const View& view) {
  for (const Process& process : view.processes) {
    auto& counts = of_process_.emplace_back();
    for (const reader::PeerCount& peer : process.box->peers)
      counts.push_back({KeyOf(peer.communicator, peer.generation, peer.peer), {peer.sends, peer.receives}});
    std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
}

const MessageCounts* PeerCounts::Of(const Member& member, std::uint32_t peer) const {
  const auto& counts = of_process_[static_cast<std::size_t>(member.process)];
  const Key key = KeyOf(member.comm->index, member.comm->generation, peer);
  const auto found = std::lower_bound(counts.begin(), counts.end(), key,
                                      [](const auto& count, const Key& wanted) { return count.first < wanted; });
  return found != counts.end() && found->first == key ? &found->second : nullptr;
}

}  // namespace ncclwatch::diagnosis
