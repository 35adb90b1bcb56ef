#include "shim/mpi/requests.h"

#include "shim/mpi/real.h"

namespace ncclwatch::shim::mpi {

using functions::Function;

constinit HandleMap<Request> requests;

namespace {

bool WasCancelled(const MPI_Status* status) {
  int cancelled = 0;
  auto* ask = NCCLWATCH_ASK(MPI_Test_cancelled);
  return status && ask && ask(status, &cancelled) == MPI_SUCCESS && cancelled;
}

}  // namespace

void OpenRequest(const Call& call, MPI_Request made, bool sends, bool receives, bool persistent) {
  if (made == MPI_REQUEST_NULL) return;
  Request request;
  request.slot = persistent ? kNoSlot : call.slot;
  request.site = call.site;
  request.count = call.count;
  request.bytes = call.bytes;
  request.function = static_cast<std::uint32_t>(call.function);
  request.index = call.index;
  request.generation = call.generation;
  request.signature = call.signature;
  request.flags = call.flags;
  request.peer = call.root;
  request.tag = call.tag;
  request.dtype = call.dtype;
  request.reduction = call.reduction;
  request.receives = receives;
  request.sends = sends;
  request.persistent = persistent;
  request.active = !persistent;
  requests.Put(Bits(made), request);
}

void StartRequest(Box& box, Thread& thread, std::uint64_t site, MPI_Request handle) {
  Request request;
  if (!requests.Find(Bits(handle), &request) || !request.persistent) return;
  Call call{.box = box, .thread = thread};
  call.function = static_cast<Function>(request.function);
  call.site = site;
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
  if (request.sends)
    EnterSend(call);
  else if (request.receives)
    EnterReceive(call);
  else
    EnterCollective(call);
  Leave(call, MPI_SUCCESS);
  request.slot = call.slot;
  request.flags = call.flags;
  request.active = true;
  requests.Put(Bits(handle), request);
}

void CloseRequest(Box& box, std::uint64_t handle, const Request& request, const MPI_Status* status) {
  if (!request.active) return;
  const bool cancelled = request.cancelling && WasCancelled(status);
  if (request.receives && !cancelled) {
    const bool asked = request.NeedsStatus() && status;
    NoteReceipt(box, {.slot = request.slot,
                      .index = request.index,
                      .generation = request.generation,
                      .source = asked ? status->MPI_SOURCE : request.peer,
                      .tag = asked ? status->MPI_TAG : request.tag});
  }
  NoteCompletion(box, request.slot, cancelled ? std::uint32_t{format::kCancelled} : 0u);
  if (request.persistent) {
    Request rests = request;
    rests.active = false;
    rests.cancelling = false;
    requests.Put(handle, rests);
    return;
  }
  // The handle may be another request's by now.
  requests.Remove(handle, [&](const Request& there) { return there.slot == request.slot; });
}

}  // namespace ncclwatch::shim::mpi
