#include "core/view/as_of.h"

#include <algorithm>
#include <unordered_map>

#include "core/reader/left_out.h"
#include "core/view/clocks.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {
namespace {

using format::CommunicatorState;
using functions::Function;
using reader::Call;

bool SaysGoodbye(Function function) {
  return function == Function::ncclCommDestroy || function == Function::ncclCommAbort ||
         function == Function::ncclCommFinalize || function == Function::ncclCommRevoke;
}

using Index = std::unordered_map<std::uint64_t, reader::Communicator*>;

Index IndexOf(reader::BoxImage* box) {
  Index index;
  for (reader::Communicator& comm : box->communicators) {
    index[std::uint64_t{comm.generation} << 32 | comm.index] = &comm;
  }
  return index;
}

// The call had not been made yet.
void TakeBack(const Call& call, reader::Communicator* comm, reader::BoxImage* box) {
  if (SaysGoodbye(call.function)) comm->state = CommunicatorState::kReady;
  if (functions::IsCollective(call.function)) {
    if ((call.flags & format::kEmpty) != 0) {
      if (comm->empties > 0) --comm->empties;
    } else {
      comm->entered = std::min(comm->entered, call.position);
      comm->returned = std::min(comm->returned, comm->entered);
    }
  }
  if ((call.flags & format::kMarked) != 0) comm->tickets = std::min(comm->tickets, call.ticket);
  if (call.function != Function::ncclSend && call.function != Function::ncclRecv) return;
  for (reader::PeerCount& peer : box->peers) {
    if (peer.communicator != comm->index || peer.generation != (comm->generation & 0xffffffu)) continue;
    if (peer.peer != static_cast<std::uint32_t>(call.root)) continue;
    std::uint64_t& count = call.function == Function::ncclSend ? peer.sends : peer.receives;
    count = std::min(count, call.position);
  }
}

// The call was still inside the library.
void Reopen(const Call& call, reader::Communicator* comm) {
  if (SaysGoodbye(call.function)) comm->state = CommunicatorState::kReady;
  if (functions::IsCollective(call.function) && (call.flags & format::kEmpty) == 0) {
    comm->returned = std::min(comm->returned, call.position);
  }
}

// The last collective that is left, for communicators whose newest ones were taken back.
void RestoreLast(const reader::BoxImage& box, const Index& index) {
  for (const Call& call : box.calls) {
    if (!functions::IsCollective(call.function) || (call.flags & format::kEmpty) != 0) continue;
    const auto found = index.find(std::uint64_t{call.generation} << 32 | call.communicator);
    if (found == index.end()) continue;
    reader::Communicator& comm = *found->second;
    comm.last = {call.slot, call.count, call.entered_ns, call.function,
                 call.root, call.dtype, call.reduction,  call.flags};
    comm.chain = call.chain;
  }
}

// Whether the image, sifted, lacks what it takes to go back: calls after the instant, or the last one before it.
bool NeedsLeftOut(const reader::BoxImage& box, std::int64_t now_ns) {
  if (box.left_out == 0) return false;
  if (box.left_out_until_ns > now_ns) return true;
  return std::any_of(box.communicators.begin(), box.communicators.end(), [&](const reader::Communicator& comm) {
    if (comm.left_out.end == 0 || comm.last.entered_ns <= now_ns) return false;
    return std::none_of(box.calls.begin(), box.calls.end(), [&](const Call& call) {
      return call.communicator == comm.index && call.generation == comm.generation && call.entered_ns <= now_ns &&
             functions::IsCollective(call.function) && (call.flags & format::kEmpty) == 0;
    });
  });
}

// Neither aborted nor revoked yet: what that ended on the GPU had not finished.
void Resume(reader::Communicator* comm) {
  comm->aborted_ns = 0;
  if (comm->state == CommunicatorState::kAborted || comm->state == CommunicatorState::kRevoked)
    comm->state = CommunicatorState::kReady;
  for (std::size_t i = 0; i < comm->marks.size(); ++i) {
    const std::uint64_t behind = std::min<std::uint64_t>(comm->unfinished[i], comm->aborted_tickets);
    comm->marks[i] = std::min(comm->marks[i], comm->aborted_tickets - behind);
  }
  for (std::size_t i = 0; i < comm->starts.size(); ++i)
    comm->starts[i] = std::min(comm->starts[i], comm->aborted_starts[i]);
}

}  // namespace

void RollBack(std::int64_t now_ns, reader::BoxImage* box) {
  if (NeedsLeftOut(*box, now_ns)) reader::PutBack(box);
  box->heartbeat_ns = std::min(box->heartbeat_ns, now_ns);
  if (box->last_words.written && box->last_words.at_ns > now_ns) {
    box->last_words = {};
    box->state = format::ProcessState::kRunning;
  }
  reader::RollBack(now_ns, &box->words);
  const bool later = std::any_of(box->calls.begin(), box->calls.end(), [&](const Call& call) {
    return call.entered_ns > now_ns || call.returned_ns > now_ns;
  });
  std::erase_if(box->communicators, [&](const reader::Communicator& comm) { return comm.created_ns > now_ns; });
  for (reader::Communicator& comm : box->communicators)
    if (comm.aborted_ns > now_ns) Resume(&comm);
  if (!later) return;
  const Index index = IndexOf(box);
  for (Call& call : box->calls) {
    if (call.entered_ns <= now_ns && call.returned_ns <= now_ns) continue;
    const auto found = index.find(std::uint64_t{call.generation} << 32 | call.communicator);
    if (found != index.end()) {
      if (call.entered_ns > now_ns) {
        TakeBack(call, found->second, box);
      } else {
        Reopen(call, found->second);
      }
    }
    call.returned_ns = 0;
    call.result = format::kNoResult;
  }
  std::erase_if(box->calls, [&](const Call& call) { return call.entered_ns > now_ns; });
  std::erase_if(box->parts, [&](const reader::CallParts& parts) { return parts.call.entered_ns > now_ns; });
  RestoreLast(*box, index);
}

void RollBack(Snapshot* snapshot) {
  const Clocks clocks(snapshot->boxes, snapshot->boot_id);
  for (reader::BoxImage& box : snapshot->boxes) RollBack(snapshot->now_ns - clocks.ShiftOf(box), &box);
}

bool TellsOfLater(const Snapshot& snapshot) {
  const std::vector<Process> processes = MakeProcesses(snapshot);
  return std::any_of(processes.begin(), processes.end(),
                     [&](const Process& process) { return process.outcome.last_sign_ns > snapshot.now_ns; });
}

Snapshot AsOf(const Snapshot& snapshot, std::int64_t now_ns) {
  Snapshot past;
  past.now_ns = now_ns;
  past.boot_id = snapshot.boot_id;
  past.limits = snapshot.limits;
  past.boxes = snapshot.boxes;
  past.notes = snapshot.notes;
  past.ends = snapshot.ends;
  const Clocks clocks(snapshot.boxes, ReferenceBoot(snapshot));
  for (reader::BoxImage& box : past.boxes) RollBack(now_ns - clocks.ShiftOf(box), &box);
  for (const reader::Observation& seen : snapshot.observations) {
    if (seen.at_ns <= now_ns) past.observations.push_back(seen);
  }
  return past;
}

}  // namespace ncclwatch::diagnosis
