// Sends and receives per peer: lock-free find-or-add in the box's open-addressed table.
#pragma once

#include <cstdint>

#include "shim/black_box/box.h"

namespace ncclwatch::shim {

// A chain longer than this means a table so full that counting costs too much: the count is given up and said so.
inline constexpr std::uint64_t kPeerProbes = 64;
// Of a slot that is being emptied for its next owner. Names no communicator.
inline constexpr std::uint64_t kPeerClaimed = ~std::uint64_t{0};

enum class PeerUse { kLive, kEnded, kReplaced };

// kReplaced: the communicator's entry is another one's by now, so that no reader finds a use for the count. kEnded:
// the communicator is destroyed or aborted and still shown.
inline PeerUse UseOf(const Box& box, std::uint64_t key) {
  const std::uint64_t packed = key - 1;
  const std::uint32_t index = static_cast<std::uint32_t>(packed >> 20) & 0xfffff;
  if (index >= box.capacity) return PeerUse::kLive;
  format::Communicator& entry = box.communicators[index];
  // Another thread may give the entry away at this very moment.
  const std::uint32_t generation = std::atomic_ref(entry.generation).load(std::memory_order_relaxed);
  if ((generation & 0xffffffu) != packed >> 40) return PeerUse::kReplaced;
  const auto state = static_cast<format::CommunicatorState>(entry.state.load(std::memory_order_acquire));
  const bool ended = state == format::CommunicatorState::kDestroyed || state == format::CommunicatorState::kAborted;
  return ended ? PeerUse::kEnded : PeerUse::kLive;
}

// No other thread adds the same key: NCCL wants calls on one communicator ordered by its user.
inline format::Peer* TakeOver(Box& box, std::uint64_t home, std::uint64_t key, PeerUse least) {
  for (std::uint64_t i = 0; i < kPeerProbes; ++i) {
    format::Peer& slot = box.peers[(home + i) % format::kPeerCapacity];
    std::uint64_t there = slot.key.load(std::memory_order_acquire);
    if (there == kPeerClaimed || UseOf(box, there) < least) continue;
    if (!slot.key.compare_exchange_strong(there, kPeerClaimed, std::memory_order_acq_rel)) continue;
    slot.sends.store(0, std::memory_order_relaxed);
    slot.receives.store(0, std::memory_order_relaxed);
    // Pairs with the readers' acquire: who sees the key sees no counts of the former owner.
    slot.key.store(key, std::memory_order_release);
    return &slot;
  }
  return nullptr;
}

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
  if (format::Peer* slot = TakeOver(box, home, key, PeerUse::kReplaced)) return slot;
  // One count is lost either way: better that of what has ended than that of what may hang.
  box.header->peers_lost.fetch_add(1, std::memory_order_relaxed);
  return TakeOver(box, home, key, PeerUse::kEnded);
}

}  // namespace ncclwatch::shim
