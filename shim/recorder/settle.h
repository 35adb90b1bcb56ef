// What becomes of calls once the library has returned: results, end marks, positions.
//
// Which positions count: a call that the library refused for its arguments (ncclInvalidArgument, ncclInvalidUsage) was
// never enqueued and consumes no position; the next call takes it. In a group one refused call makes NCCL drop all of
// them, and ncclGroupSimulateEnd drops them in any case. After any other error the communicator is past use, and its
// positions stand as entered.
#pragma once

#include <cstdint>

#include "ncclwatch/functions/function.h"
#include "shim/black_box/box.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim {

// A record this close to being overwritten is left alone: its slot may get a new owner while it is written.
inline bool StillOurs(const Box& box, std::uint64_t slot) {
  const std::uint64_t ring = box.mask + 1;
  return slot != kNoSlot && box.header->head.load(std::memory_order_relaxed) - slot < ring - ring / 4;
}
// Unless it fails.
inline bool CanBeMarked(const Operation& operation) {
  return operation.index != format::kNoCommunicator && (operation.flags & (format::kEmpty | format::kNonBlocking)) == 0;
}

// Result and return stamp of one record, if the ring has not wrapped over it since.
inline void WriteReturn(Box& box, std::uint64_t slot, int result, std::uint64_t returned) {
  if (!StillOurs(box, slot)) return;
  format::Record& record = box.RecordAt(slot);
  record.result.store(result, std::memory_order_relaxed);
  // Pairs with the reader's acquire: who sees the return sees result, flags and ticket.
  record.returned.store(returned, std::memory_order_release);
}

// Takes back the position of the newest operation on its communicator (and peer).
void Undo(Box& box, const Operation& operation);
// A call that has returned and needs no mark.
void SettleOne(Box& box, const Operation& operation, int result, std::uint64_t returned);
// A call outside groups: undone, or marked and settled.
void SettleAlone(Box& box, Operation& operation, int result);
// All calls of a group, at its outermost end (ncclGroupEnd or ncclGroupSimulateEnd).
void SettleGroup(Box& box, Group& group, functions::Function end, int result);

}  // namespace ncclwatch::shim
