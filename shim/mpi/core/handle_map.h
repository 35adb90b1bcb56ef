// What is known of MPI's objects, by handle: requests, datatypes. Grows with the number of those that are open at once,
// never shrinks, and never asks the application's allocator.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shim/mpi/core/threads.h"

namespace ncclwatch::shim::mpi {

// Value: trivially copyable, zero-initialised is fine. All operations copy in and out, under the lock of a part.
template <class Value>
class HandleMap {
 public:
  // Objects that can be open at once; more are not known.
  static constexpr std::uint64_t kMost = 1u << 23;

  bool Find(std::uint64_t handle, Value* value) {
    Part& part = PartOf(handle);
    const Lock lock(part.locked);
    if (!lock.held()) return false;
    const Slot* slot = part.Seek(Key(handle));
    if (!slot) return false;
    *value = slot->value;
    return true;
  }
  // Also in the place of one that is known by the same handle. False: there is no room.
  bool Put(std::uint64_t handle, const Value& value) {
    return Put(handle, [&value](Value& there, bool) { there = value; });
  }
  // fill(there, known) writes it in its place, in which there may be one that is known by the same handle, or nothing
  // that means anything.
  template <class Fill>
  requires std::invocable<Fill, Value&, bool>
  bool Put(std::uint64_t handle, const Fill& fill) {
    Part& part = PartOf(handle);
    const Lock lock(part.locked);
    if (!lock.held()) return false;
    if (Slot* slot = part.Seek(Key(handle))) {
      fill(slot->value, true);
      return true;
    }
    if (4 * (part.used + 1) > 3 * part.capacity && !part.Grow()) return false;
    fill(part.Add(Key(handle)), false);
    return true;
  }
  // For one more, whatever its handle.
  bool MakeRoom() {
    bool room = true;
    for (Part& part : parts_) {
      const Lock lock(part.locked);
      room = room && lock.held() && (4 * (part.used + 1) <= 3 * part.capacity || part.Grow());
    }
    return room;
  }
  // In its place. False: it is not known.
  template <class Visit>
  bool Change(std::uint64_t handle, const Visit& change) {
    Part& part = PartOf(handle);
    const Lock lock(part.locked);
    Slot* const slot = lock.held() ? part.Seek(Key(handle)) : nullptr;
    if (slot) change(slot->value);
    return slot != nullptr;
  }
  // Where `still`, which may change the value, says that it is the one that is meant.
  template <class Still>
  bool Remove(std::uint64_t handle, const Still& still) {
    Part& part = PartOf(handle);
    const Lock lock(part.locked);
    if (!lock.held()) return false;
    Slot* slot = part.Seek(Key(handle));
    if (!slot || !still(slot->value)) return false;
    part.Close(slot);
    return true;
  }
  // Not in the order of anything.
  template <class Visit>
  void ForEach(const Visit& visit) {
    for (Part& part : parts_) {
      const Lock lock(part.locked);
      for (std::uint64_t i = 0; lock.held() && i < part.capacity; ++i)
        if (part.slots[i].key) visit(part.slots[i].key - 1, part.slots[i].value);
    }
  }

 private:
  static constexpr std::uint32_t kParts = 16;
  static constexpr std::uint64_t kFirst = 64;  // slots of a part, at first

  struct Slot {
    std::uint64_t key;  // handle + 1; 0: free
    Value value;
  };
  static std::uint64_t Hash(std::uint64_t key) { return key * 0x9e3779b97f4a7c15ull; }
  static std::uint64_t Key(std::uint64_t handle) { return handle + 1; }

  struct alignas(64) Part {
    std::atomic<bool> locked{false};
    Slot* slots = nullptr;
    std::uint64_t capacity = 0;  // a power of two
    std::uint64_t used = 0;

    std::uint64_t Home(std::uint64_t key) const { return (Hash(key) >> 20) & (capacity - 1); }
    Slot* Seek(std::uint64_t key) {
      if (capacity == 0) return nullptr;
      for (std::uint64_t at = Home(key);; at = (at + 1) & (capacity - 1)) {
        if (slots[at].key == key) return &slots[at];
        if (slots[at].key == 0) return nullptr;
      }
    }
    Value& Add(std::uint64_t key) {
      std::uint64_t at = Home(key);
      while (slots[at].key != 0) at = (at + 1) & (capacity - 1);
      slots[at].key = key;
      ++used;
      return slots[at].value;
    }
    // Moves up what would not be found any more across the gap.
    void Close(Slot* slot) {
      std::uint64_t gap = static_cast<std::uint64_t>(slot - slots);
      for (std::uint64_t at = (gap + 1) & (capacity - 1); slots[at].key != 0; at = (at + 1) & (capacity - 1)) {
        const std::uint64_t home = Home(slots[at].key);
        if (((at - home) & (capacity - 1)) < ((at - gap) & (capacity - 1))) continue;
        slots[gap] = slots[at];
        gap = at;
      }
      slots[gap].key = 0;
      --used;
    }
    bool Grow() {
      const std::uint64_t wanted = capacity ? 2 * capacity : kFirst;
      if (wanted > kMost / kParts) return false;
      void* memory = mmap(nullptr, wanted * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return false;
      Slot* const old = slots;
      const std::uint64_t before = capacity;
      slots = static_cast<Slot*>(memory);
      capacity = wanted;
      used = 0;
      for (std::uint64_t i = 0; i < before; ++i)
        if (old[i].key) Add(old[i].key) = old[i].value;
      if (old) munmap(old, before * sizeof(Slot));
      return true;
    }
  };

  Part& PartOf(std::uint64_t handle) { return parts_[Hash(Key(handle)) >> 60]; }
  static_assert(kParts == 16);

  Part parts_[kParts];
};

}  // namespace ncclwatch::shim::mpi
