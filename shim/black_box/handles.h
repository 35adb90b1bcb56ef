// From ncclComm_t to the entry of the communicator table: open addressing, read without a lock.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/record.h"

namespace ncclwatch::shim {

// Writers are serialised by Box::writer. A slot's index is stored before its handle (release), with which the
// reader's acquire load of the handle pairs.
class HandleTable {
 public:
  static constexpr std::uint32_t kCapacity = 4 * format::kMostCommunicators;
  static_assert(std::has_single_bit(kCapacity));
  struct Slot {
    std::atomic<std::uint64_t> handle;
    std::atomic<std::uint32_t> index;
  };
  // kCapacity zeroes, which stay.
  explicit HandleTable(Slot* slots) : slots_(slots) {}

  std::uint32_t Find(std::uint64_t handle) const {
    for (std::uint32_t i = 0, at = Home(handle); i < kCapacity; ++i, at = (at + 1) % kCapacity) {
      const std::uint64_t there = slots_[at].handle.load(std::memory_order_acquire);
      if (there == handle) [[likely]]
        return handle > kRemoved ? slots_[at].index.load(std::memory_order_relaxed) : format::kNoCommunicator;
      if (there == kEmpty) break;
    }
    return format::kNoCommunicator;
  }

  // A handle that is there already gets the new index. False if the table is full.
  bool Insert(std::uint64_t handle, std::uint32_t index) {
    Slot* room = nullptr;
    for (std::uint32_t i = 0, at = Home(handle); i < kCapacity; ++i, at = (at + 1) % kCapacity) {
      Slot& slot = slots_[at];
      const std::uint64_t there = slot.handle.load(std::memory_order_relaxed);
      if (there == handle) {
        slot.index.store(index, std::memory_order_relaxed);
        return true;
      }
      if (!room && (there == kEmpty || there == kRemoved)) room = &slot;
      if (there == kEmpty) break;
    }
    if (!room) return false;
    room->index.store(index, std::memory_order_relaxed);
    room->handle.store(handle, std::memory_order_release);
    return true;
  }

  void Remove(std::uint64_t handle) {
    for (std::uint32_t i = 0, at = Home(handle); i < kCapacity; ++i, at = (at + 1) % kCapacity) {
      const std::uint64_t there = slots_[at].handle.load(std::memory_order_relaxed);
      if (there == kEmpty) return;
      if (there != handle) continue;
      // Before an empty slot no chain continues, so that slots of short-lived communicators become free again.
      const bool ends = slots_[(at + 1) % kCapacity].handle.load(std::memory_order_relaxed) == kEmpty;
      slots_[at].handle.store(ends ? kEmpty : kRemoved, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = 0;
  static constexpr std::uint64_t kRemoved = 1;  // no pointer to a communicator
  static std::uint32_t Home(std::uint64_t handle) {
    return static_cast<std::uint32_t>(handle * 0x9e3779b97f4a7c15ull >> (64 - std::countr_zero(kCapacity)));
  }

  Slot* slots_;
};

}  // namespace ncclwatch::shim
