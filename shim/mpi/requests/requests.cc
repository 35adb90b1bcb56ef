#include "shim/mpi/requests/requests.h"

#include <new>

#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/record/parts.h"
#include "shim/mpi/requests/buffers.h"

namespace ncclwatch::shim::mpi {

using functions::Function;

constinit HandleMap<Request> requests;

namespace {

void ReleaseBuffers(Call& ends, std::uint64_t slot) {
  open_buffers.Remove(slot);
  if (ends.box.watches_buffers) [[unlikely]]
    EndBuffers(ends, slot);
}

bool WasCancelled(const MPI_Status* status) {
  int cancelled = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Test_cancelled);
  return status && ask && ask(status, &cancelled) == MPI_SUCCESS && cancelled;
}

}  // namespace

void OpenRequest(Call& call, MPI_Request made, bool sends, bool receives, bool persistent) {
  if (made == MPI_REQUEST_NULL) return ReleaseBuffers(call, call.slot);
  bool shared = false;
  std::uint32_t sharers = 1;
  std::uint64_t over = kNoSlot, displaced = kNoSlot;
  const bool kept = requests.Put(Bits(made), [&](Request& there, bool known) {
    if (known && there.active) [[unlikely]]
      displaced = there.slot;
    if (known && !persistent && !there.persistent) [[unlikely]] {
      shared = there.shared || there.active;
      if (there.active) {
        sharers = there.sharers + 1;
        over = there.slot;
      }
    }
    new (&there) Request{.slot = persistent ? kNoSlot : call.slot,
                         .site = call.site,
                         .count = call.count,
                         .bytes = call.bytes,
                         .function = static_cast<std::uint32_t>(call.function),
                         .index = call.index,
                         .generation = call.generation,
                         .signature = call.signature,
                         .flags = call.flags,
                         .peer = call.root,
                         .tag = call.tag,
                         .dtype = call.dtype,
                         .reduction = call.reduction,
                         .receives = receives,
                         .sends = sends,
                         .persistent = persistent,
                         .active = !persistent,
                         .sharers = sharers,
                         .shared = shared};
  });
  if (over != kNoSlot) [[unlikely]]
    NoteCompletion(call.box, over, clock::Ticks());
  if (displaced != kNoSlot) [[unlikely]]
    ReleaseBuffers(call, displaced);
  if (!kept) [[unlikely]]
    LoseSight(ObjectKind::kRequest);
}

void ForgetRequest(Call& call, MPI_Request made) {
  NoteDone(call, made);
  requests.Remove(Bits(made), [](const Request&) { return true; });
}

void StartRequest(Call& start, MPI_Request handle) {
  Request request;
  if (handle == MPI_REQUEST_NULL || !requests.Find(Bits(handle), &request)) return;
  const auto made_by = static_cast<Function>(request.function);
  const Wrong wrong = !request.persistent ? Wrong::kNotPersistent
                      : request.done      ? Wrong::kStaleRequest
                                          : Wrong::kStartedTwice;
  if ((request.active || !request.persistent || request.done) && InSight(ObjectKind::kRequest))
    Report(start, {.wrong = wrong, .made_at = request.site, .made_by = made_by});
  if (!request.persistent || request.active || request.done) return;
  Call call(start.box, start.thread, made_by, start.site);
  call.index = request.index;
  call.generation = request.generation;
  call.count = request.count;
  call.bytes = request.bytes;
  call.signature = request.signature;
  call.dtype = request.dtype;
  call.reduction = request.reduction;
  call.root = request.peer;
  call.tag = request.tag;
  call.flags = request.flags | format::kRequest | format::kPersisting;
  if (request.sends) {
    EnterSend(call);
  } else if (request.receives) {
    EnterReceive(call);
  } else {
    TellSavedParts(call, Bits(handle));
    EnterCollective(call);
  }
  Leave(call, MPI_SUCCESS);
  StartBuffers(start, call, handle);
  request.slot = call.slot;
  request.flags = call.flags & ~std::uint32_t{format::kHasParts};
  request.active = true;
  ++request.starts;
  requests.Put(Bits(handle), request);
}

void LearnStart(Call& start, MPI_Request handle) {
  Request request;
  if (handle == MPI_REQUEST_NULL || !requests.Find(Bits(handle), &request) || !request.persistent) return;
  int rests = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Request_get_status);
  if (ask && ask(handle, &rests, MPI_STATUS_IGNORE) == MPI_SUCCESS && rests) NoteDone(start, handle);
}

void NoteDone(Call& call, MPI_Request handle) {
  Request request;
  if (handle != MPI_REQUEST_NULL && requests.Find(Bits(handle), &request) && request.active)
    ReleaseBuffers(call, request.slot);
}

void NoteAsked(Call& call, MPI_Request handle) {
  Request request;
  if (handle == MPI_REQUEST_NULL || !requests.Find(Bits(handle), &request) || !request.active) return;
  ReleaseBuffers(call, request.slot);
  AddFlags(call.box, request.slot, format::kAskedAbout);
}

void CloseRequest(Call& ends, std::uint64_t handle, const Pending& request, const MPI_Status* status) {
  if (!request.active) return;
  Box& box = ends.box;
  ReleaseBuffers(ends, request.slot);
  const bool cancelled = request.cancelling && WasCancelled(status);
  if (request.receives && !cancelled) {
    const bool asked = request.needs_status && status;
    NoteReceipt(box, {.slot = request.slot,
                      .index = request.index,
                      .generation = request.generation,
                      .source = asked ? CountedThrough(box, request.index, status->MPI_SOURCE) : request.peer,
                      .tag = asked ? status->MPI_TAG : request.tag});
  }
  if (request.makes != format::kNoCommunicator) [[unlikely]]
    EndPending(box, request.makes);
  if (request.cancelling && !cancelled) RemoveFlags(box, request.slot, format::kCancelled);
  NoteCompletion(box, request.slot, ReturnOf(ends));
  requests.Change(handle, [&](Request& there) {
    if (there.persistent ? there.slot != request.slot : !there.active) return;
    // It may be another thread's request by now, which counts this one among the sharers: it was not closed yet.
    if (!there.persistent && --there.sharers > 0) return;
    there.active = false;
    there.cancelling = false;
    there.done = !there.persistent && !there.shared;
  });
}

}  // namespace ncclwatch::shim::mpi
