// The communicator table: where a new entry goes, and how it begins.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/base/put.h"
#include "shim/black_box/box.h"

namespace ncclwatch::shim {

struct Origin {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  std::uint64_t ordinal = 0;
  std::int32_t color = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t flags = 0;
};

// An entry in state kInitializing, or kNoCommunicator if all are of communicators that live.
std::uint32_t Make(Box& box, const Origin& origin, std::uint32_t library);

// How often `key`, not 0, has been counted before.
std::uint64_t CountUse(Box& box, std::uint64_t key);

// The newest collective of a communicator, kept where the ring cannot wrap past it. Of NCCL's calls and of MPI's.
template <class Call>
[[gnu::always_inline]] inline void PutLast(const Box& box, format::Communicator& entry, const Call& call) {
  Put(entry.last.slot, call.slot);
  Put(entry.last.count, call.count);
  if (call.slot != kNoSlot) Put(entry.last.entered, box.RecordAt(call.slot).entered.load(std::memory_order_relaxed));
  Put(entry.last.function, static_cast<std::uint32_t>(call.function));
  Put(entry.last.root, call.root);
  Put(entry.last.dtype, call.dtype);
  Put(entry.last.reduction, call.reduction);
  Put(entry.last.flags, call.flags);
}

inline void SetState(format::Communicator& entry, format::CommunicatorState state) {
  entry.state.store(static_cast<std::uint32_t>(state), std::memory_order_release);
}
// False, and nothing changes, if it is in another state by now.
inline bool ChangeState(format::Communicator& entry, format::CommunicatorState from, format::CommunicatorState to) {
  auto expected = static_cast<std::uint32_t>(from);
  return entry.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(to), std::memory_order_acq_rel);
}
inline format::CommunicatorState StateOf(const format::Communicator& entry) {
  return static_cast<format::CommunicatorState>(entry.state.load(std::memory_order_acquire));
}

// The name that the program gave; longer ones are cut.
void SetLabel(format::Communicator& entry, const char* name);

// Aborted or revoked: called right before it is, while its marks still say what the GPU had finished by itself.
void NoteAbort(format::Communicator& entry, format::CommunicatorState state);

// Whose entry it is. A communicator may be aborted, and its entry given to the next one, while another thread is still
// on its way back from a call on it: who comes from a call compares before writing. Pairs with the release in Make: who
// sees the old number here may still write, but not once the new owner's first fields are seen.
inline std::uint32_t GenerationOf(format::Communicator& entry) {
  return std::atomic_ref(entry.generation).load(std::memory_order_acquire);
}

}  // namespace ncclwatch::shim
