// Requests from the call that makes them to the one that learns of their end.
#pragma once

#include <cstdint>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/handle_map.h"
#include "shim/mpi/record/record.h"

namespace ncclwatch::shim::mpi {

struct Request {
  std::uint64_t slot = kNoSlot;  // of the record of its operation; of a persistent one, of the last one started
  std::uint64_t site = 0;        // that made it
  std::uint64_t count = 0;       // and so on: what a persistent one does each time it is started
  std::uint64_t bytes = 0;
  std::uint32_t function = 0;
  std::uint32_t index = format::kNoCommunicator;
  std::uint32_t generation = 0;
  std::uint32_t signature = 0;
  std::uint32_t flags = 0;
  std::int32_t peer = format::kNoRank;  // and root
  std::int32_t tag = format::kNoTag;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  bool receives = false;
  bool sends = false;
  bool persistent = false;
  bool active = false;
  bool cancelling = false;
  bool done = false;          // it is over, or a persistent one was freed: whoever still has the handle has a copy
  bool awaited_idle = false;  // persistent, and waited for before it was ever started
  std::uint32_t starts = 0;   // of a persistent one
  std::uint32_t makes = format::kNoCommunicator;  // the entry that is made once it is over: MPI_Comm_idup
  // MPI gives one handle to all operations that are over at once.
  std::uint32_t sharers = 1;
  bool shared = false;
  std::uint32_t listed = 0;  // number of the last call that had it in a list of several
};

// Of an active request: what is still to be known once a call has taken its handle away.
struct Pending {
  std::uint64_t slot = kNoSlot;
  std::uint32_t index = format::kNoCommunicator;
  std::uint32_t generation = 0;
  std::int32_t peer = format::kNoRank;
  std::int32_t tag = format::kNoTag;
  std::uint32_t makes = format::kNoCommunicator;
  bool active = false;
  bool receives = false;
  bool persistent = false;
  bool cancelling = false;
  bool needs_status = false;  // only MPI can say which message a wildcard receive got, whether a cancelled one did

  void Take(const Request& request) {
    slot = request.slot;
    index = request.index;
    generation = request.generation;
    peer = request.peer;
    tag = request.tag;
    makes = request.makes;
    active = request.active;
    receives = request.receives;
    persistent = request.persistent;
    cancelling = request.cancelling;
    const bool from_any = receives && (request.flags & (format::kAnySource | format::kAnyTag)) != 0;
    needs_status = active && (from_any || cancelling);
  }
};

extern HandleMap<Request> requests;

// A successful call has made the request.
void OpenRequest(Call& call, MPI_Request made, bool sends, bool receives, bool persistent);
// MPI_Start: a record of its own, as if the operation were called.
void StartRequest(Call& start, MPI_Request request);
// MPI has refused it, or that of one started with it.
void LearnStart(Call& start, MPI_Request request);
// Another request, of which nothing is known, has this handle now.
void ForgetRequest(Call& call, MPI_Request made);
// MPI has told that the operation is over, and not ended its request.
void NoteDone(Call& call, MPI_Request request);
// The program has been told so, as of NoteDone, and ends it later.
void NoteAsked(Call& call, MPI_Request request);
// The operation is over, as the call `ends` learns; status: what MPI says of it where it
// needs_status.
void CloseRequest(Call& ends, std::uint64_t handle, const Pending& request, const MPI_Status* status);

}  // namespace ncclwatch::shim::mpi
