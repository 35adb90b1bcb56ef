// Sends and receives per peer: lock-free find-or-add in the box's open-addressed table.
#pragma once

#include <cstdint>

#include "shim/recorder/box.h"

namespace ncclwatch::shim {

// A chain longer than this means a table so full that counting costs too much: the count is given up and said so.
inline constexpr std::uint64_t kPeerProbes = 64;

// Null if there is no room, or the peer is no rank.
inline format::Peer* FindPeer(Box& box, std::uint32_t index, std::uint32_t generation, std::int32_t peer) {
  if (peer < 0 || peer >= 1 << 20) return nullptr;
  const std::uint64_t key = format::PeerKey(generation, index, static_cast<std::uint32_t>(peer));
  const std::uint64_t home = format::PeerSlot(key, format::kPeerCapacity);
  for (std::uint64_t i = 0; i < kPeerProbes; ++i) {
    format::Peer& slot = box.peers[(home + i) % format::kPeerCapacity];
    std::uint64_t there = slot.key.load(std::memory_order_acquire);
    if (there == 0 && slot.key.compare_exchange_strong(there, key, std::memory_order_acq_rel)) return &slot;
    if (there == key) return &slot;
  }
  box.header->peers_lost.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

}  // namespace ncclwatch::shim
