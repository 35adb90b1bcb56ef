// Recording one call of MPI: its slot in the ring before the real function is called, the rest after it. On the way of
// collectives, messages and waits there is no allocation and no system call, but for tables that grow.
#pragma once

#include "shim/base/clock.h"
#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/threads.h"
#include "shim/recorder/settle.h"

namespace ncclwatch::shim::mpi {

inline format::MpiRecord& RecordAt(Box& box, std::uint64_t slot) {
  return reinterpret_cast<format::MpiRecord&>(box.RecordAt(slot));
}

// Fills in what is known of the communicator.
void Attach(Call& call, MPI_Comm comm);

// Between two groups ranks of peers count through both (format::kCommBothGroups), in records and the table of peers.
std::int32_t CountedThrough(const Box& box, std::uint32_t index, std::int32_t peer);
inline void CountPeerThrough(Call& call) {
  if (call.inter) [[unlikely]]
    call.root = CountedThrough(call.box, call.index, call.root);
}

// The error of a collective call that was not refused for its arguments, before anybody else was told of it.
bool TookPart(int error);

// Before the real call. Each commits a record, from when on the call is seen as entered.
void EnterCollective(Call& call);
void EnterSend(Call& call);
void EnterReceive(Call& call);
void EnterOther(Call& call);
// After it. When it returned is asked of the clock once, however many records say so.
inline std::uint64_t ReturnOf(Call& call) {
  if (call.returned == 0) call.returned = clock::Ticks();
  return call.returned;
}
[[gnu::always_inline]] inline void Leave(Call& call, int result) {
  WriteReturn(call.box, call.slot, result, ReturnOf(call));
  Noted(call, result);
}
// ... of a collective: one that the library refused takes no position.
void LeaveCollective(Call& call, int result);
void LeaveSend(Call& call, int result);

// The receive in this slot has been met by a message.
struct Receipt {
  std::uint64_t slot;
  std::uint32_t index;
  std::uint32_t generation;
  std::int32_t source;
  std::int32_t tag;
};
void NoteReceipt(Box& box, const Receipt& receipt);
// The application knows that the operation in this slot is over, since `ticks`.
inline void NoteCompletion(Box& box, std::uint64_t slot, std::uint64_t ticks) {
  if (StillOurs(box, slot)) RecordAt(box, slot).completed.store(ticks, std::memory_order_release);
}
// A call in slot `waiter` waits for the request that was made in `slot`.
inline void NoteWaiter(Box& box, std::uint64_t slot, std::uint64_t waiter) {
  if (StillOurs(box, slot) && waiter != kNoSlot)
    RecordAt(box, slot).waiter.store(waiter + 1, std::memory_order_relaxed);
}
void AddFlags(Box& box, std::uint64_t slot, std::uint32_t flags);
void RemoveFlags(Box& box, std::uint64_t slot, std::uint32_t flags);

// A test or probe that found nothing: no record each, or a loop of them would flush the ring; the first one of a row
// makes one, the others count in it.
void NotePoll(Call& call);

}  // namespace ncclwatch::shim::mpi
