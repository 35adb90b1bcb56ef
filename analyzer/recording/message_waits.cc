#include "analyzer/recording/message_waits.h"

#include <algorithm>

#include "analyzer/recording/meeting.h"
#include "core/calls/mpi_message.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Function;
using reader::Call;

bool HasRequest(const Call& call) { return (call.flags & format::kRequest) != 0; }

}  // namespace

void MessageWaits::Add(const Call& call, const reader::Communicator* on, int rank, std::size_t process,
                       std::int64_t real_ns) {
  if (call.returned_ns == 0) return;
  const functions::FunctionInfo* const info = functions::Find(call.function);
  if (!info) return;
  const std::int64_t returned_ns = functions::IsMpi(call.function) ? call.returned_ns + real_ns : INT64_MAX;
  const Wait own{rank, call.slot, call.entered_ns + real_ns, returned_ns};
  if (info->family == functions::Family::kCompletion)
    Enter({process, call.slot}, own, (call.flags & (format::kAnyDoes | format::kPolls)) != 0);
  if (on && functions::IsMessage(call.function)) AddMessage(call, *on, own, process);
}

void MessageWaits::AddMessage(const Call& call, const reader::Communicator& on, const Wait& own, std::size_t process) {
  const auto key = MeetingOf(on, call);
  if (!key) return;
  const bool sends = call.function == Function::ncclSend || diagnosis::IsSend(call);
  Known& message = messages_[*key];
  End& end = sends ? message.sender : message.receiver;
  end = {own.entered_ns, own.rank, WaitOf(call, own, process), (call.flags & format::kSynchronous) != 0};
  if (sends)
    message.bytes = functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
  if (message.sender.entered_ns == 0 || message.receiver.entered_ns == 0) return;
  const Known known = message;
  messages_.erase(*key);
  if (on_message) on_message({known.sender.rank, known.receiver.rank, known.bytes});
  Settle(known);
}

// Both halves of an exchange are calls of their own.
MessageWaits::Place MessageWaits::WaitOf(const Call& call, const Wait& own, std::size_t process) {
  const bool forgotten = (call.flags & format::kForgotten) != 0;
  if (HasRequest(call) && (call.waiter == 0 || forgotten)) return {kNobody, 0};
  const Place place{process, HasRequest(call) ? call.waiter - 1 : call.slot};
  OpenWait& open = waits_[place];
  ++open.messages;
  if (!HasRequest(call)) {
    open.wait = own;
    open.entered = true;
  }
  return place;
}

// The calls for which it waits have come before it.
void MessageWaits::Enter(Place place, const Wait& own, bool unclear) {
  const auto found = waits_.find(place);
  if (found == waits_.end()) return;
  OpenWait& open = found->second;
  open.wait.rank = own.rank;
  open.wait.slot = own.slot;
  open.wait.entered_ns = own.entered_ns;
  open.wait.returned_ns = own.returned_ns;
  open.entered = true;
  open.unclear = unclear;
  Finish(place, &open);
}

void MessageWaits::Settle(const Known& message) {
  const bool eager = message.bytes <= eager_ && !message.sender.synchronous;
  const std::int64_t both_ns = std::max(message.sender.entered_ns, message.receiver.entered_ns);
  SettleOne(message.receiver, message.sender, eager ? message.sender.entered_ns : both_ns, message.bytes, false);
  SettleOne(message.sender, message.receiver, eager ? 0 : both_ns, message.bytes, true);
}

void MessageWaits::SettleOne(const End& end, const End& other, std::int64_t ready_ns, std::uint64_t bytes, bool sends) {
  const auto found = waits_.find(end.waits);
  if (found == waits_.end()) return;
  OpenWait& open = found->second;
  --open.messages;
  if (ready_ns > open.wait.ready_ns) {
    open.wait.ready_ns = ready_ns;
    open.wait.bytes = bytes;
    open.wait.peer = other.rank;
    open.wait.sends = sends;
  }
  Finish(end.waits, &open);
}

void MessageWaits::Finish(Place place, OpenWait* open) {
  if (!open->entered || open->messages > 0) return;
  const OpenWait finished = *open;
  waits_.erase(place);
  if (!finished.unclear && on_wait) on_wait(finished.wait);
}

}  // namespace ncclwatch::analyzer
