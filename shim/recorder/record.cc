#include "shim/recorder/record.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/clock.h"
#include "shim/base/keep_errno.h"
#include "shim/base/nccl_compat.h"
#include "shim/base/put.h"
#include "shim/black_box/peers.h"
#include "shim/black_box/table.h"
#include "shim/exit_report/errors.h"
#include "shim/python/lines.h"
#include "shim/recorder/communicators.h"
#include "shim/recorder/marks.h"
#include "shim/recorder/settle.h"

namespace ncclwatch::shim {
namespace {

using format::kNoCommunicator;
using functions::Family;
using functions::Function;

// The thread's notes are of the process that made them: in a fork child they are void.
void Renew(Thread& thread, const Box& box) {
  thread.box = &box;
  thread.group = nullptr;
  thread.group_id = 0;
  thread.depth = 0;
  thread.id = static_cast<std::uint32_t>(syscall(SYS_gettid));
}

// Fills and commits the record: from then on the call is seen as entered. The fields are shared with readers, and with
// a writer that was held up for a whole turn of the ring: its late commit, of an older slot, makes readers drop the
// record.
[[gnu::always_inline]] inline void Commit(Box& box, Thread& thread, Call& call) {
  const std::uint64_t site = PlaceOf(box, thread, call.site);
  const std::uint64_t entered = clock::Ticks();
  const std::uint64_t slot = box.slots.Take(box.header->head, thread);
  format::Record& record = box.RecordAt(slot);
  record.commit.store(0, std::memory_order_relaxed);
  // The fields must not be seen before the slot is known to be torn; a reader loads commit on both sides of its copy.
  std::atomic_thread_fence(std::memory_order_release);
  call.slot = slot;
  record.entered.store(entered, std::memory_order_relaxed);
  record.returned.store(0, std::memory_order_relaxed);
  Put(record.position, call.position);
  Put(record.count, call.count);
  Put(record.chain, call.chain);
  Put(record.stream, call.stream);
  Put(record.site, site);
  Put(record.group, call.group);
  Put(record.ticket, 0);
  record.result.store(format::kNoResult, std::memory_order_relaxed);
  Put(record.function, static_cast<std::uint32_t>(call.function));
  Put(record.communicator, call.index);
  Put(record.generation, call.generation);
  Put(record.thread, thread.id);
  Put(record.flags, call.flags);
  Put(record.root, call.root);
  Put(record.dtype, call.dtype);
  Put(record.reduction, call.reduction);
  Put(record.reserved16, 0);
  record.kernel.store(0, std::memory_order_relaxed);
  record.commit.store(slot + 1, std::memory_order_release);
}

[[gnu::always_inline]] inline void Join(const Thread& thread, Call& call) {
  if (thread.depth == 0) return;
  call.group = thread.group_id;
  call.flags |= format::kGrouped;
}

[[gnu::always_inline]] inline format::Communicator* Attach(Box& box, Call& call) {
  call.index = Lookup(box, call.library, call.communicator);
  if (call.index == kNoCommunicator) return nullptr;
  format::Communicator& entry = box.communicators[call.index];
  call.generation = GenerationOf(entry);
  if (entry.size == 1) call.flags |= format::kOneRank;
  if (entry.flags & format::kCommNonBlocking) call.flags |= format::kNonBlocking;
  return &entry;
}

void EnterGroup(Box& box, Thread& thread, Call& call) {
  call.group = thread.group_id;
  if (box.Watching()) {
    // The outermost GroupStart names the group, with its own slot: known only once it has one.
    Commit(box, thread, call);
    if (call.function == Function::ncclGroupStart && thread.depth == 0) {
      call.group = call.slot + 1;
      Put(box.RecordAt(call.slot).group, call.group);
    }
  }
  if (call.function == Function::ncclGroupStart || thread.depth != 1) return;
  // The outermost end: what the group collected belongs to this call from now on, whatever becomes of the thread.
  call.closing = thread.group;
  call.closes = true;
  thread.group = nullptr;
  thread.group_id = 0;
  thread.depth = 0;
}

void LeaveGroup(Box& box, Thread& thread, Call& call, int result) {
  if (call.function == Function::ncclGroupStart) {
    if (result != ncclSuccess) return;
    if (thread.depth++ > 0) return;
    thread.group = box.groups.Claim();
    thread.group_id = call.group;
    return;
  }
  if (!call.closes) {
    if (thread.depth > 0) --thread.depth;
    return;
  }
  if (!call.closing) return;
  SettleGroup(box, *call.closing, call.function, result);
  box.groups.Release(call.closing);
}

// Making and ending communicators happens when the group ends. False: this call has returned for good.
bool Defer(Thread& thread, const Call& call, int result) {
  Group* group = thread.group;
  if (thread.depth == 0 || !group) return false;
  const bool failed = IsError(result);
  if (failed) group->failed = true;
  if (failed || group->deferred == kDeferred) return false;
  if (call.created != kNoCommunicator) group->created[group->creations++] = call.created;
  group->deferred_slots[group->deferred++] = call.slot;
  return true;
}

}  // namespace

void EnterCollective(Box& box, Thread& thread, Call& call) {
  if (thread.box != &box) [[unlikely]]
    Renew(thread, box);
  format::Communicator* entry = Attach(box, call);
  Join(thread, call);
  if (entry) {
    call.position = entry->entered.load(std::memory_order_relaxed);
    call.chain_before = entry->chain.load(std::memory_order_relaxed);
    const bool empty = call.count == 0;
    if (empty) call.flags |= format::kEmpty;
    call.chain = empty ? call.chain_before : format::Chain(call.chain_before, call.fingerprint);
  }
  if (box.Watching()) [[likely]]
    Commit(box, thread, call);
  if (!entry) return;
  if (call.flags & format::kEmpty) {
    entry->empties.store(entry->empties.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  PutLast(box, *entry, call);
  entry->chain.store(call.chain, std::memory_order_relaxed);
  // Pairs with the readers' acquire: who sees the new count finds the record and the chain.
  entry->entered.store(call.position + 1, std::memory_order_release);
}

// A count of 0 is no empty call here: NCCL lets such a pair meet all the same.
void EnterPointToPoint(Box& box, Thread& thread, Call& call) {
  if (thread.box != &box) [[unlikely]]
    Renew(thread, box);
  format::Communicator* entry = Attach(box, call);
  Join(thread, call);
  if (!entry) {
    if (box.Watching()) Commit(box, thread, call);
    return;
  }
  const bool sends = call.function == Function::ncclSend;
  format::Peer* peer = FindPeer(box, call.index, call.generation, call.root);
  std::atomic<std::uint64_t>* count = peer ? (sends ? &peer->sends : &peer->receives) : nullptr;
  call.position = count ? count->load(std::memory_order_relaxed) : 0;
  if (box.Watching()) [[likely]]
    Commit(box, thread, call);
  if (count) count->store(call.position + 1, std::memory_order_release);
  std::atomic<std::uint64_t>& all = sends ? entry->sends : entry->receives;
  all.store(all.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void LeaveOperation(Box& box, Thread& thread, Call& call, int result) {
  Operation operation{.slot = call.slot,
                      .stream = call.stream,
                      .chain_before = call.chain_before,
                      .position = call.position,
                      .index = call.index,
                      .generation = call.generation,
                      .peer = call.root,
                      .flags = call.flags,
                      .function = static_cast<std::uint32_t>(call.function),
                      .timing = thread.timed_slot == call.slot + 1 ? Timing::kWanted : Timing::kNone};
  const bool refused = IsError(result);
  if (refused) [[unlikely]]
    NoteError(box, call, result);
  if (thread.depth > 0 && !refused && thread.group && thread.group->operations < kOperations) {
    thread.group->operation[thread.group->operations++] = operation;
    return;
  }
  if (thread.depth > 0) {
    const std::uint64_t returned = clock::Ticks();
    if (!refused) return SettleOne(box, operation, result, returned);
    if (thread.group) thread.group->failed = true;
    Undo(box, operation);
    return WriteReturn(box, call.slot, result, returned);
  }
  SettleAlone(box, operation, result);
}

void EnterOther(Box& box, Thread& thread, Call& call) {
  const KeepErrno keep;
  if (thread.box != &box) Renew(thread, box);
  if (call.family == Family::kGroup) return EnterGroup(box, thread, call);
  if (call.family == Family::kCreation)
    BeginCreation(box, call);
  else if (call.family == Family::kLifecycle)
    BeginLifecycle(box, call);
  else
    Attach(box, call);
  Join(thread, call);
  if (box.Watching()) Commit(box, thread, call);
}

void LeaveOther(Box& box, Thread& thread, Call& call, int result) {
  const KeepErrno keep;
  const std::uint64_t returned = clock::Ticks();
  if (IsError(result)) [[unlikely]] {
    // Of a group, the communicator that its first operation is on.
    if (call.closing && call.closing->operations > 0) {
      call.index = call.closing->operation[0].index;
      call.generation = call.closing->operation[0].generation;
    }
    NoteError(box, call, result);
  }
  if (call.family == Family::kGroup) {
    LeaveGroup(box, thread, call, result);
  } else if (call.family == Family::kCreation) {
    if (Defer(thread, call, result)) return;
    EndCreation(box, call.created, result);
  } else if (call.family == Family::kLifecycle) {
    EndLifecycle(box, call, result);
    if (Defer(thread, call, result)) return;
  } else if (call.family == Family::kOneSided) {
    if (Defer(thread, call, result)) return;
  }
  WriteReturn(box, call.slot, result, returned);
}

}  // namespace ncclwatch::shim
