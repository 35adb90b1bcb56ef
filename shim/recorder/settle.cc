#include "shim/recorder/settle.h"

#include "shim/base/clock.h"
#include "shim/base/nccl_compat.h"
#include "shim/black_box/peers.h"
#include "shim/black_box/table.h"
#include "shim/recorder/communicators.h"
#include "shim/recorder/group_marks.h"
#include "shim/recorder/marks.h"

namespace ncclwatch::shim {
namespace {

using format::kNoCommunicator;
using functions::Function;

bool Refused(int result) { return result == ncclInvalidArgument || result == ncclInvalidUsage; }

bool IsPointToPoint(const Operation& operation) {
  const auto function = static_cast<Function>(operation.function);
  return function == Function::ncclSend || function == Function::ncclRecv;
}

format::Communicator* EntryOf(Box& box, const Operation& operation) {
  if (operation.index == kNoCommunicator) return nullptr;
  format::Communicator& entry = box.communicators[operation.index];
  return GenerationOf(entry) == operation.generation ? &entry : nullptr;
}

std::uint32_t FlagOf(device::Outcome outcome) {
  switch (outcome) {
    case device::Outcome::kEnqueued: return format::kMarked;
    case device::Outcome::kCaptured: return format::kCaptured;
    case device::Outcome::kUnavailable: return format::kMarkUnavailable;
    case device::Outcome::kNotWanted: break;
  }
  return 0;
}

// The ticket before the flag that gives it a meaning; both before `returned`, which the reader looks at first.
void WriteMark(Box& box, std::uint64_t slot, std::uint32_t flag, std::uint64_t ticket) {
  if (flag == 0 || !StillOurs(box, slot)) return;
  format::Record& record = box.RecordAt(slot);
  std::atomic_ref(record.ticket).store(ticket, std::memory_order_relaxed);
  std::atomic_ref(record.flags).fetch_or(flag, std::memory_order_release);
}

}  // namespace

void Undo(Box& box, const Operation& operation) {
  format::Communicator* entry = EntryOf(box, operation);
  if (!entry || (operation.flags & format::kEmpty)) return;
  if (!IsPointToPoint(operation)) {
    if (entry->entered.load(std::memory_order_relaxed) != operation.position + 1) return;
    entry->chain.store(operation.chain_before, std::memory_order_relaxed);
    entry->entered.store(operation.position, std::memory_order_release);
    return;
  }
  const bool sends = static_cast<Function>(operation.function) == Function::ncclSend;
  std::atomic<std::uint64_t>& all = sends ? entry->sends : entry->receives;
  all.store(all.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  format::Peer* peer = FindPeer(box, operation.index, operation.generation, operation.peer);
  if (!peer) return;
  std::atomic<std::uint64_t>& count = sends ? peer->sends : peer->receives;
  if (count.load(std::memory_order_relaxed) == operation.position + 1)
    count.store(operation.position, std::memory_order_release);
}

void SettleOne(Box& box, const Operation& operation, int result, std::uint64_t returned) {
  WriteReturn(box, operation.slot, result, returned);
  if (IsPointToPoint(operation) || (operation.flags & format::kEmpty)) return;
  format::Communicator* entry = EntryOf(box, operation);
  if (!entry) return;
  const std::uint64_t entered = entry->entered.load(std::memory_order_relaxed);
  const std::uint64_t done = entry->returned.load(std::memory_order_relaxed) + 1;
  if (done <= entered) entry->returned.store(done, std::memory_order_release);
}

void SettleAlone(Box& box, Operation& operation, int result) {
  const std::uint64_t returned = clock::Ticks();
  if (Refused(result)) {
    Undo(box, operation);
    return WriteReturn(box, operation.slot, result, returned);
  }
  if (result == ncclSuccess && CanBeMarked(operation)) {
    std::uint64_t ticket = 0;
    const std::uint32_t flag = FlagOf(device::Enqueue(box, operation, &ticket));
    WriteMark(box, operation.slot, flag, ticket);
  }
  SettleOne(box, operation, result, returned);
}

void SettleGroup(Box& box, Group& group, Function end, int result) {
  const std::uint64_t returned = clock::Ticks();
  const bool dropped = group.failed || Refused(result) || end == Function::ncclGroupSimulateEnd;
  for (std::uint32_t i = group.operations; dropped && i-- > 0;) {
    Undo(box, group.operation[i]);
    WriteReturn(box, group.operation[i].slot, result, returned);
  }
  const int creation = dropped && result == ncclSuccess ? int{ncclInvalidUsage} : result;
  for (std::uint32_t i = 0; i < group.creations; ++i) EndCreation(box, group.created[i], creation);
  for (std::uint32_t i = 0; i < group.deferred; ++i) WriteReturn(box, group.deferred_slots[i], result, returned);
  if (dropped) return;

  GroupMarks<device::Enqueue> marks;
  for (std::uint32_t i = 0; i < group.operations; ++i) {
    const Operation& operation = group.operation[i];
    if (result == ncclSuccess && CanBeMarked(operation)) {
      const GroupMark* mark = marks.For(box, operation);
      WriteMark(box, operation.slot, FlagOf(mark ? mark->outcome : device::Outcome::kUnavailable),
                mark ? mark->number : 0);
    }
    SettleOne(box, operation, result, returned);
  }
}

}  // namespace ncclwatch::shim
