#include "shim/mpi/record/record.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/base/put.h"
#include "shim/black_box/peers.h"
#include "shim/black_box/table.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/checks.h"
#include "shim/recorder/settle.h"

namespace ncclwatch::shim::mpi {

namespace {

using format::kNoCommunicator;

// The thread's notes are of the process that made them: in a fork child they are void.
void Renew(Call& call) {
  Thread& thread = call.thread;
  if (thread.box == &call.box) return;
  thread.box = &call.box;
  thread.group = nullptr;
  thread.group_id = 0;
  thread.depth = 0;
  thread.id = static_cast<std::uint32_t>(syscall(SYS_gettid));
}

// No message has met it, and its record is about to be overwritten.
[[gnu::cold, gnu::noinline]] void NoteLostReceive(const Box& box, const format::MpiRecord& record) {
  constexpr std::uint32_t kOpen = format::kRequest | format::kNoPartner;
  if ((record.flags.load(std::memory_order_relaxed) & kOpen) != format::kRequest ||
      record.completed.load(std::memory_order_relaxed) != 0 || record.communicator >= box.capacity)
    return;
  format::Communicator& entry = box.communicators[record.communicator];
  if (GenerationOf(entry) == record.generation) std::atomic_ref(entry.flags).fetch_or(format::kCommLostReceives);
}

// As Commit of NCCL's records (recorder/record.cc), which says how it goes together with readers.
void Commit(Call& call) {
  Box& box = call.box;
  Renew(call);
  if (!box.Watching()) return;
  const std::uint64_t entered = clock::Ticks();
  const std::uint64_t slot = box.slots.Take(box.header->head, call.thread);
  format::MpiRecord& record = RecordAt(box, slot);
  if (record.position.load(std::memory_order_relaxed) == format::kNotMatched) [[unlikely]]
    NoteLostReceive(box, record);
  record.commit.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  call.slot = slot;
  record.entered.store(entered, std::memory_order_relaxed);
  record.returned.store(0, std::memory_order_relaxed);
  record.position.store(call.position, std::memory_order_relaxed);
  Put(record.count, call.count);
  record.chain.store(call.chain, std::memory_order_relaxed);
  record.waiter.store(0, std::memory_order_relaxed);
  Put(record.site, call.site);
  Put(record.group, call.group);
  Put(record.signature, call.signature);
  record.tag.store(call.tag, std::memory_order_relaxed);
  record.result.store(format::kNoResult, std::memory_order_relaxed);
  Put(record.function, static_cast<std::uint32_t>(call.function));
  Put(record.communicator, call.index);
  Put(record.generation, call.generation);
  Put(record.thread, call.thread.id);
  record.flags.store(call.flags, std::memory_order_relaxed);
  record.root.store(call.root, std::memory_order_relaxed);
  Put(record.dtype, call.dtype);
  Put(record.reduction, call.reduction);
  Put(record.parts_high, call.parts_high);
  record.completed.store(0, std::memory_order_relaxed);
  Put(record.bytes, call.bytes);
  record.commit.store(slot + 1, std::memory_order_release);
}

// The value before. Where several threads may count, at the price of a locked addition.
template <class T>
[[gnu::always_inline]] inline T Count(std::atomic<T>& counter, T more) {
  if (threaded.load(std::memory_order_relaxed)) return counter.fetch_add(more, std::memory_order_acq_rel);
  const T before = counter.load(std::memory_order_relaxed);
  counter.store(before + more, std::memory_order_release);
  return before;
}

std::uint32_t TagOf(std::int32_t tag) { return format::AddTag(0, tag); }

format::Communicator* EntryOf(const Call& call) {
  return call.index == kNoCommunicator ? nullptr : &call.box.communicators[call.index];
}

format::Peer* ChannelOf(const Call& call) {
  return call.index == kNoCommunicator ? nullptr : FindPeer(call.box, call.index, call.generation, call.root);
}

// The next call takes its position.
[[gnu::cold]] void GiveBack(const Call& call, format::Communicator* entry) {
  if (entry->entered.load(std::memory_order_relaxed) != call.position + 1) return;
  entry->chain.store(call.chain_before, std::memory_order_relaxed);
  entry->entered.store(call.position, std::memory_order_release);
}

}  // namespace

bool TookPart(int error) {
  switch (ClassOf(error)) {
    case MPI_ERR_BUFFER:
    case MPI_ERR_COUNT:
    case MPI_ERR_TYPE:
    case MPI_ERR_TAG:
    case MPI_ERR_COMM:
    case MPI_ERR_RANK:
    case MPI_ERR_ROOT:
    case MPI_ERR_GROUP:
    case MPI_ERR_OP:
    case MPI_ERR_TOPOLOGY:
    case MPI_ERR_DIMS:
    case MPI_ERR_INFO:
    case MPI_ERR_INFO_KEY:
    case MPI_ERR_INFO_VALUE:
    case MPI_ERR_WIN:
    case MPI_ERR_SIZE:
    case MPI_ERR_DISP:
    case MPI_ERR_ASSERT:
    case MPI_ERR_RMA_SYNC:
    case MPI_ERR_FILE:
    case MPI_ERR_AMODE:
    case MPI_ERR_ARG: return false;
    default: return true;
  }
}

void Attach(Call& call, MPI_Comm comm) {
  call.index = call.box.handles.Find(Bits(comm));
  format::Communicator* entry = EntryOf(call);
  if (!entry) [[unlikely]]
    return CheckUnknown(call, comm);
  call.generation = GenerationOf(*entry);
  call.rank = static_cast<std::int32_t>(entry->rank);
  call.size = entry->size;
  call.inter = (entry->flags & format::kCommInter) != 0;
  if (entry->size == 1 && !call.inter) call.flags |= format::kOneRank;
}

std::int32_t CountedThrough(const Box& box, std::uint32_t index, std::int32_t peer) {
  if (index == kNoCommunicator || peer < 0) return peer;
  const format::Communicator& entry = box.communicators[index];
  return (entry.flags & format::kCommBothGroups) ? entry.color + peer : peer;
}

void EnterCollective(Call& call) {
  format::Communicator* entry = EntryOf(call);
  if (entry) {
    call.position = entry->entered.load(std::memory_order_relaxed);
    const std::uint64_t fingerprint =
        format::Fingerprint(call.function, call.count, call.dtype, call.reduction, call.root, call.signature);
    call.chain_before = entry->chain.load(std::memory_order_relaxed);
    call.chain = format::Chain(call.chain_before, fingerprint);
  }
  Commit(call);
  if (!entry) return;
  PutLast(call.box, *entry, call);
  entry->chain.store(call.chain, std::memory_order_relaxed);
  // Pairs with the readers' acquire: who sees the new count finds the record and the chain.
  entry->entered.store(call.position + 1, std::memory_order_release);
}

void LeaveCollective(Call& call, int result) {
  const bool refused = result != MPI_SUCCESS && !TookPart(result);
  if (result != MPI_SUCCESS && !refused) [[unlikely]]
    AddFlags(call.box, call.slot, format::kTookPart);
  if (format::Communicator* entry = EntryOf(call); entry && GenerationOf(*entry) == call.generation) {
    if (refused) [[unlikely]]
      GiveBack(call, entry);
    else
      entry->returned.store(call.position + 1, std::memory_order_release);
  }
  Leave(call, result);
}

void EnterSend(Call& call) {
  if (call.root == MPI_PROC_NULL) call.flags |= format::kNoPartner;
  format::Peer* channel = ChannelOf(call);
  if (channel) {
    const std::uint32_t tag = TagOf(call.tag);
    call.position = Count<std::uint64_t>(channel->sends, 1);
    call.chain = Count<std::uint32_t>(channel->send_tags, tag) + tag;
    Count<std::uint64_t>(EntryOf(call)->sends, 1);
  }
  Commit(call);
}

void LeaveSend(Call& call, int result) {
  // It was refused for its arguments, and no message left.
  if (result != MPI_SUCCESS) [[unlikely]] {
    if (format::Peer* channel = ChannelOf(call)) {
      Count<std::uint64_t>(channel->sends, ~std::uint64_t{0});
      Count<std::uint32_t>(channel->send_tags, 0u - TagOf(call.tag));
      Count<std::uint64_t>(EntryOf(call)->sends, ~std::uint64_t{0});
    }
  }
  Leave(call, result);
}

void EnterReceive(Call& call) {
  if (call.root == MPI_PROC_NULL) call.flags |= format::kNoPartner;
  if (call.root == MPI_ANY_SOURCE) call.flags |= format::kAnySource;
  if (call.tag == MPI_ANY_TAG) call.flags |= format::kAnyTag;
  call.position = format::kNotMatched;
  Commit(call);
}

void EnterOther(Call& call) { Commit(call); }

void NoteReceipt(Box& box, const Receipt& receipt) {
  if (receipt.index == kNoCommunicator || receipt.source < 0) return;
  format::Peer* channel = FindPeer(box, receipt.index, receipt.generation, receipt.source);
  if (!channel) return;
  const std::uint32_t tag = TagOf(receipt.tag);
  const std::uint64_t position = Count<std::uint64_t>(channel->receives, 1);
  const std::uint32_t sum = Count<std::uint32_t>(channel->receive_tags, tag) + tag;
  format::Communicator& entry = box.communicators[receipt.index];
  if (GenerationOf(entry) == receipt.generation) Count<std::uint64_t>(entry.receives, 1);
  if (!StillOurs(box, receipt.slot)) return;
  format::MpiRecord& record = RecordAt(box, receipt.slot);
  record.root.store(receipt.source, std::memory_order_relaxed);
  record.tag.store(receipt.tag, std::memory_order_relaxed);
  record.chain.store(sum, std::memory_order_relaxed);
  // Pairs with the readers' acquire: who sees the position sees whose it is.
  record.position.store(position, std::memory_order_release);
}

void AddFlags(Box& box, std::uint64_t slot, std::uint32_t flags) {
  if (StillOurs(box, slot)) RecordAt(box, slot).flags.fetch_or(flags, std::memory_order_relaxed);
}

void RemoveFlags(Box& box, std::uint64_t slot, std::uint32_t flags) {
  if (StillOurs(box, slot)) RecordAt(box, slot).flags.fetch_and(~flags, std::memory_order_relaxed);
}

void NotePoll(Call& call) {
  Box& box = call.box;
  // A loop may ask in turns about several things: a thread keeps a few rows open.
  struct Row {
    const Box* box;
    std::uint64_t slot;
    std::uint64_t site;
  };
  constexpr std::size_t kRows = 4;
  static thread_local constinit Row rows[kRows] __attribute__((tls_model("initial-exec"))) = {};
  static thread_local constinit std::uint32_t oldest __attribute__((tls_model("initial-exec"))) = 0;
  // What was called since ends the row: then it is told where in the order of calls the next one began.
  const std::uint64_t head = box.header->head.load(std::memory_order_relaxed);
  for (const Row& row : rows) {
    if (row.box != &box || row.site != call.site || head - row.slot > kRows || !StillOurs(box, row.slot)) continue;
    format::MpiRecord& record = RecordAt(box, row.slot);
    if (record.function != static_cast<std::uint32_t>(call.function) || record.returned.load(std::memory_order_relaxed))
      continue;
    call.slot = row.slot;
    Put(record.count, record.count + 1);
    record.completed.store(clock::Ticks(), std::memory_order_relaxed);
    return;
  }
  call.count = 1;
  call.flags |= format::kPolls;
  Commit(call);
  if (call.slot == kNoSlot) return;
  rows[oldest++ % kRows] = {&box, call.slot, call.site};
  RecordAt(box, call.slot).completed.store(clock::Ticks(), std::memory_order_relaxed);
}

}  // namespace ncclwatch::shim::mpi
