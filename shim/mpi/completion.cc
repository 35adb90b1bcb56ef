#include "shim/mpi/completion.h"

#include <sys/mman.h>

#include <new>

#include "shim/mpi/buffers.h"
#include "shim/mpi/checks.h"
#include "shim/mpi/objects.h"
#include "shim/mpi/parts.h"
#include "shim/mpi/real.h"
#include "shim/recorder/put.h"
#include "shim/recorder/settle.h"

namespace ncclwatch::shim::mpi {
namespace {

constinit HandleMap<Receipt> messages;

// What is waited for is not under way: a persistent request that rests, which is allowed, or a handle whose operation
// is over.
[[gnu::cold]] void NoteIdle(Call& call, std::uint64_t handle) {
  Request request;
  if (!requests.Find(handle, &request)) return;
  if (request.done) {
    if (InSight(ObjectKind::kRequest))
      Report(call, {.wrong = Wrong::kStaleRequest,
                    .made_at = request.site,
                    .made_by = static_cast<functions::Function>(request.function)});
  } else if (request.persistent && request.starts == 0 && !request.awaited_idle) {
    request.awaited_idle = true;
    requests.Put(handle, request);
  }
}

bool WantsNone(const MPI_Status* wanted) { return wanted == MPI_STATUS_IGNORE || wanted == MPI_STATUSES_IGNORE; }

}  // namespace

Awaited::Awaited(Call& call, int count, const MPI_Request* handles)
    : call_(call), count_(count > 0 && handles ? count : 0) {
  CheckCount(call, count);
  if (count > 0 && !handles) Report(call, {.wrong = Wrong::kNullRequests, .value = count});
  if (count_ > kFew) {
    mapped_ = static_cast<std::uint64_t>(count_) * (sizeof(Row) + sizeof(MPI_Status));
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      count_ = 0;
      mapped_ = 0;
      LoseSight(ObjectKind::kRequest);
      return;
    }
    rows_ = static_cast<Row*>(memory);
    statuses_ = reinterpret_cast<MPI_Status*>(rows_ + count_);
  }
  for (int i = 0; i < count_; ++i) {
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without handles the count is 0
    Row* row = new (&rows_[i]) Row{Bits(handles[i]), {}};
    if (handles[i] == MPI_REQUEST_NULL) continue;
    const bool found = requests.Change(row->handle, [row](const Request& there) { row->request.Take(there); });
    if (row->request.active) {
      ++known_;
      needs_status_ |= row->request.needs_status;
    } else if (found) {
      NoteIdle(call, row->handle);
      rests_ |= row->request.persistent;
    }
  }
}

Awaited::~Awaited() {
  if (mapped_) munmap(rows_, mapped_);
}

void Awaited::Enter(Call& call) {
  call.count = static_cast<std::uint64_t>(known_);
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
    DropKeptBuffers(handle);
  } else {
    requests.Remove(handle, [&](Request& there) { return there.slot == request.slot && --there.sharers == 0; });
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
