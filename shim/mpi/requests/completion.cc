#include "shim/mpi/requests/completion.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>

#include "shim/base/put.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/record/parts.h"
#include "shim/mpi/requests/buffers.h"
#include "shim/recorder/settle.h"

namespace ncclwatch::shim::mpi {
namespace {

constinit HandleMap<Receipt> messages;

void ReportRequest(Call& call, Wrong wrong, const Request& request, std::int64_t value = 0) {
  if (!InSight(ObjectKind::kRequest)) return;
  Report(call, {.wrong = wrong,
                .value = value,
                .made_at = request.site,
                .made_by = static_cast<functions::Function>(request.function)});
}

// What is waited for is a handle whose operation is over, unless it is a persistent request that rests.
[[gnu::cold]] void NoteIdle(Call& call, std::uint64_t handle) {
  Request request;
  if (requests.Find(handle, &request) && request.done) ReportRequest(call, Wrong::kStaleRequest, request);
}

[[gnu::cold]] void NoteTwice(Call& call, std::uint64_t handle, int count) {
  Request request;
  if (requests.Find(handle, &request)) ReportRequest(call, Wrong::kListedTwice, request, count);
}

// All that is waited for is persistent and rests. Beside others a program may leave some unstarted, at a border that
// has no neighbour.
[[gnu::cold]] void NoteNeverStarted(std::uint64_t handle) {
  requests.Change(handle, [](Request& there) { there.awaited_idle |= there.persistent && there.starts == 0; });
}

std::uint32_t NewList() {
  static constinit std::atomic<std::uint32_t> lists{0};
  return lists.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Memory for long lists is kept from call to call: mapping it anew costs more than all that is done with it. Who comes
// in between, a thread, a signal or a fork child, takes another piece or maps its own.
struct Room {
  std::uint64_t bytes;
};
constexpr std::uint64_t kLeastMapped = std::uint64_t{1} << 16;
constexpr std::uint64_t kMostKept = std::uint64_t{1} << 20;  // of one: some ten thousand requests
constinit std::atomic<Room*> spares[4] = {};

Room* TakeRoom(std::uint64_t bytes) {
  for (std::atomic<Room*>& spare : spares) {
    Room* const room =
        spare.load(std::memory_order_relaxed) ? spare.exchange(nullptr, std::memory_order_acquire) : nullptr;
    if (!room) continue;
    if (room->bytes >= bytes) return room;
    munmap(room, room->bytes);
  }
  const std::uint64_t wanted = std::max(std::bit_ceil(bytes), kLeastMapped);
  void* memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Room{wanted};
}

void GiveBack(Room* room) {
  if (room->bytes <= kMostKept)
    for (std::atomic<Room*>& spare : spares) {
      Room* none = nullptr;
      if (!spare.load(std::memory_order_relaxed) &&
          spare.compare_exchange_strong(none, room, std::memory_order_release))
        return;
    }
  munmap(room, room->bytes);
}

bool WantsNone(const MPI_Status* wanted) { return wanted == MPI_STATUS_IGNORE || wanted == MPI_STATUSES_IGNORE; }

}  // namespace

Awaited::Awaited(Call& call, int count, const MPI_Request* handles)
    : call_(call), count_(count > 0 && handles ? count : 0) {
  CheckCount(call, count);
  if (count > 0 && !handles) Report(call, {.wrong = Wrong::kNullRequests, .value = count});
  if (count_ > kFew && !MakeRoom(handles)) return;
  const std::uint32_t list = count_ > 1 ? NewList() : 0;
  int resting = 0;
  for (int i = 0; i < count_; ++i) {
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without handles the count is 0
    Row* row = new (&rows_[i]) Row{Bits(handles[i]), {}};
    if (handles[i] == MPI_REQUEST_NULL) continue;
    ++given_;
    bool twice = false;
    const bool found = requests.Change(row->handle, [&](Request& there) {
      row->request.Take(there);
      if (list == 0) return;
      twice = there.listed == list && there.active && !there.shared;
      there.listed = list;
    });
    if (twice) [[unlikely]]
      NoteTwice(call, row->handle, count_);
    if (row->request.active) {
      ++known_;
      needs_status_ |= row->request.needs_status;
    } else if (found) {
      NoteIdle(call, row->handle);
      resting += row->request.persistent;
    } else {
      ++unknown_;
    }
  }
  for (int i = 0; i < count_ && resting == count_; ++i) NoteNeverStarted(rows_[i].handle);
}

Awaited::~Awaited() {
  if (many_) GiveBack(static_cast<Room*>(many_));
}

bool Awaited::MakeRoom(const MPI_Request* handles) {
  if (std::all_of(handles, handles + count_, [](MPI_Request handle) { return handle == MPI_REQUEST_NULL; })) {
    count_ = 0;
    return false;
  }
  constexpr std::uint64_t kHead = std::max(sizeof(Room), alignof(Row));
  const auto rows = static_cast<std::uint64_t>(count_);
  many_ = TakeRoom(kHead + rows * (sizeof(Row) + sizeof(MPI_Status)));
  if (!many_) {
    count_ = 0;
    LoseSight(ObjectKind::kRequest);
    return false;
  }
  rows_ = reinterpret_cast<Row*>(static_cast<char*>(many_) + kHead);
  statuses_ = reinterpret_cast<MPI_Status*>(rows_ + rows);
  return true;
}

void Awaited::Enter(Call& call) {
  call.count = static_cast<std::uint64_t>(known_ + unknown_);
  EnterOther(call);
  for (int i = 0; i < count_; ++i)
    if (rows_[i].request.active) NoteWaiter(call_.box, rows_[i].request.slot, call.slot);
}

MPI_Status* Awaited::One(MPI_Status* wanted) { return needs_status_ && WantsNone(wanted) ? statuses_ : wanted; }
MPI_Status* Awaited::All(MPI_Status* wanted) { return One(wanted); }

void Awaited::NoteTest(Call& call, int result, bool found) {
  mpi::NoteTest(call, result, found);
  for (int i = 0; i < count_; ++i)
    if (rows_[i].request.active) NoteWaiter(call_.box, rows_[i].request.slot, call.slot);
}

void Awaited::Close(int at, const MPI_Status* status) {
  if (at < 0 || at >= count_) return;
  CloseRequest(call_, rows_[at].handle, rows_[at].request, WantsNone(status) ? nullptr : status);
}

void Awaited::CloseAll(const MPI_Request* handles, int result, const MPI_Status* statuses) {
  for (int i = 0; i < count_; ++i) {
    const bool open = result != MPI_SUCCESS && !rows_[i].request.persistent && handles[i] != MPI_REQUEST_NULL;
    if (!open) Close(i, WantsNone(statuses) ? nullptr : statuses + i);
  }
}

void Awaited::CloseAny(const int* index, const MPI_Status* status) {
  if (index && *index != MPI_UNDEFINED) Close(*index, status);
}

void Awaited::CloseSome(int number, const int* places, const MPI_Status* statuses) {
  for (int i = 0; number != MPI_UNDEFINED && i < number; ++i)
    Close(places[i], WantsNone(statuses) ? nullptr : statuses + i);
}

void KeepMessage(const Receipt& receipt, MPI_Message message) { messages.Put(Bits(message), receipt); }

void TakeMessage(Call& call, MPI_Message message) {
  Receipt receipt;
  if (!messages.Find(Bits(message), &receipt)) return;
  messages.Remove(Bits(message), [](const Receipt&) { return true; });
  call.index = receipt.index;
  call.generation = receipt.generation;
  call.root = receipt.source;
  call.tag = receipt.tag;
}

void DescribeProbe(Call& call, int source, int tag, MPI_Comm comm) {
  Attach(call, comm);
  call.root = source;
  call.tag = tag;
  CheckSource(call);
  CheckReceivedTag(call);
  CountPeerThrough(call);
  if (source == MPI_ANY_SOURCE) call.flags |= format::kAnySource;
  if (tag == MPI_ANY_TAG) call.flags |= format::kAnyTag;
  if (source == MPI_PROC_NULL) call.flags |= format::kNoPartner;
}

void NoteTest(Call& call, int result, bool found) {
  if (!found) return NotePoll(call);
  EnterOther(call);
  Leave(call, result);
}

void JoinRecords(const Call& first, const Call& second) {
  if (first.slot == kNoSlot || second.slot == kNoSlot) return;
  for (const Call* call : {&first, &second})
    if (StillOurs(call->box, call->slot)) Put(call->box.RecordAt(call->slot).group, first.slot + 1);
}

void BeginFreeing(Call& call, std::uint64_t handle) {
  Request request;
  if (!requests.Find(handle, &request) || !InSight(ObjectKind::kRequest)) return;
  const auto made_by = static_cast<functions::Function>(request.function);
  if (request.done) Report(call, {.wrong = Wrong::kStaleRequest, .made_at = request.site, .made_by = made_by});
  if (request.active && functions::IsCollective(made_by))
    Report(call, {.wrong = Wrong::kFreedActive, .made_at = request.site, .made_by = made_by});
  if (request.awaited_idle && request.starts == 0)
    Report(call, {.wrong = Wrong::kNeverStarted, .made_at = request.site, .made_by = made_by});
}

void FreeRequest(Box& box, std::uint64_t handle) {
  Request request;
  if (!requests.Find(handle, &request)) return;
  if (request.persistent) {
    requests.Change(handle, [](Request& there) {
      there.active = false;
      there.done = true;
    });
    DropSavedParts(handle);
    DropSavedBuffers(handle);
  } else {
    requests.Change(handle, [&](Request& there) {
      if (there.slot != request.slot || --there.sharers > 0) return;
      there.active = false;
      there.done = !there.shared;
    });
  }
  if (!request.active) return;
  AddFlags(box, request.slot, format::kForgotten);
  open_buffers.Remove(request.slot);
}

void CancelRequest(Box& box, std::uint64_t handle) {
  Request request;
  if (!requests.Find(handle, &request)) return;
  request.cancelling = true;
  requests.Put(handle, request);
  // Whether it takes place is known at its end: until then waiting for it binds nobody.
  if (request.active) AddFlags(box, request.slot, format::kCancelled);
}

}  // namespace ncclwatch::shim::mpi
