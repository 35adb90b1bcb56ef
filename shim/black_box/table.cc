#include "shim/black_box/table.h"

#include <algorithm>
#include <cstddef>

#include "shim/base/clock.h"
#include "shim/base/put.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim {
namespace {

using format::CommunicatorState;
using format::kNoCommunicator;

// Entries are used up first; then those of ended communicators, oldest first, aborted and failed ones last: work of
// theirs may still be on a GPU.
std::uint32_t FindRoom(Box& box) {
  std::uint32_t used = box.header->communicators_used.load(std::memory_order_relaxed);
  if (used < box.capacity) return used;
  const std::uint32_t from = box.reuse_from.load(std::memory_order_relaxed);
  for (const bool any : {false, true}) {
    for (std::uint32_t i = 0; i < box.capacity; ++i) {
      const std::uint32_t at = (from + i) % box.capacity;
      const CommunicatorState state = StateOf(box.communicators[at]);
      const bool ended = state == CommunicatorState::kDestroyed ||
                         (any && (state == CommunicatorState::kAborted || state == CommunicatorState::kFailed));
      if (!ended) continue;
      box.reuse_from.store(at + 1, std::memory_order_relaxed);
      return at;
    }
  }
  return kNoCommunicator;
}

void Zero(void* from, const void* to) {
  for (auto* word = static_cast<std::uint64_t*>(from); word != to; ++word) Put(*word, 0);
}

// Tickets go on where the former owner stopped, and one further, for a mark that is being enqueued at this moment: the
// GPU may still write marks of the former owner's, and they must not say of a new call that it is done. All of them
// count as written, with the very value that may still come.
void FillMarks(format::Communicator& entry, bool fresh) {
  const std::uint64_t next = fresh ? 0 : entry.tickets.load(std::memory_order_relaxed) + 1;
  for (std::uint64_t ticket = next > format::kMarks ? next - format::kMarks : 0; ticket < next; ++ticket)
    entry.marks[ticket % format::kMarks].store(ticket + 1, std::memory_order_relaxed);
  entry.tickets.store(next, std::memory_order_relaxed);
}

void Fill(format::Communicator& entry, const Origin& origin, std::uint32_t library, bool fresh) {
  SetState(entry, CommunicatorState::kFree);
  // First: whoever comes back from a call on the former owner leaves the counts alone from here on. Readers pair with
  // its release and with the fence: they read it before the state, and again after all else.
  if (!fresh) std::atomic_ref(entry.generation).store(entry.generation + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  Zero(&entry.entered, &entry.tickets);
  FillMarks(entry, fresh);
  Zero(&entry.creations, &entry.last);
  Put(entry.last.slot, 0);
  Put(entry.last.count, 0);
  Put(entry.last.entered, 0);
  Put(entry.last.function, 0);
  Put(entry.last.root, format::kNoRank);
  Put(entry.last.dtype, format::kNoType);
  Put(entry.last.reduction, format::kNoReduction);
  Put(entry.last.flags, 0);
  Put(entry.id, origin.id);
  Put(entry.parent, origin.parent);
  Put(entry.parent_ordinal, origin.ordinal);
  Put(entry.handle, 0);
  Put(entry.created, clock::Ticks());
  Put(entry.rank, origin.rank);
  Put(entry.size, origin.size);
  Put(entry.color, origin.color);
  Put(entry.device, -1);
  Put(entry.memory, 0);
  Put(entry.library, library);
  Put(entry.flags, origin.flags);
  for (char& letter : entry.label) Put(letter, 0);
  Put(entry.gpu, 0u);
  Put(entry.aborted, 0);
}

// Field by field: one who comes back from a call on the former owner may be reading.
void Empty(const format::Communicator& entry, Private& mine) {
  mine.out = nullptr;
  mine.parent_handle = 0;
  mine.sibling = kNoCommunicator;
  Put(mine.pending, false);
  Put(mine.device_marks, 0);
  Put(mine.context, nullptr);
  // A place in which the GPU may still write a number of the former owner's is none of the new one's.
  for (std::uint32_t i = 0; i < format::kStarts; ++i)
    if (entry.starts[i].load(std::memory_order_relaxed) >= mine.start_places[i].last)
      Put(mine.start_places[i].stream, 0);
}

}  // namespace

void NoteAbort(format::Communicator& entry, CommunicatorState state) {
  if (std::atomic_ref(entry.aborted).load(std::memory_order_relaxed) == 0) {
    const std::uint64_t tickets = entry.tickets.load(std::memory_order_relaxed);
    Put(entry.aborted_tickets, tickets);
    for (std::uint32_t i = 0; i < format::kMarks; ++i) {
      const std::uint64_t mark = entry.marks[i].load(std::memory_order_relaxed);
      Put(entry.unfinished[i], std::min<std::uint64_t>(tickets - std::min(mark, tickets), UINT16_MAX));
    }
    for (std::uint32_t i = 0; i < format::kStarts; ++i)
      Put(entry.aborted_starts[i], entry.starts[i].load(std::memory_order_relaxed));
    std::atomic_ref(entry.aborted).store(clock::Ticks(), std::memory_order_release);
  }
  SetState(entry, state);
}

void SetLabel(format::Communicator& entry, const char* name) {
  std::size_t i = 0;
  for (; i + 1 < sizeof entry.label && name[i]; ++i) Put(entry.label[i], name[i]);
  Put(entry.label[i], '\0');
}

std::uint32_t Make(Box& box, const Origin& origin, std::uint32_t library) {
  WriterLock lock(box);
  const std::uint32_t at = FindRoom(box);
  if (at == kNoCommunicator) {
    box.header->communicators_lost.fetch_add(1, std::memory_order_relaxed);
    if (!box.said_full.exchange(true))
      log::host::Warn(
          "more than {} communicators are alive: the others are not watched (NCCLWATCH_COMMUNICATORS makes room for "
          "more)",
          box.capacity);
    return kNoCommunicator;
  }
  format::Communicator& entry = box.communicators[at];
  const bool fresh = at == box.header->communicators_used.load(std::memory_order_relaxed);
  Fill(entry, origin, library, fresh);
  Empty(entry, box.privates[at]);
  SetState(entry, CommunicatorState::kInitializing);
  if (fresh) box.header->communicators_used.store(at + 1, std::memory_order_release);
  return at;
}

std::uint64_t CountUse(Box& box, std::uint64_t key) {
  WriterLock lock(box);
  for (std::uint32_t i = 0; i < kSeenIds; ++i) {
    SeenId& seen = box.seen[(key + i) % kSeenIds];
    if (seen.key != 0 && seen.key != key) continue;
    seen.key = key;
    return seen.uses++;
  }
  return 0;
}

}  // namespace ncclwatch::shim
