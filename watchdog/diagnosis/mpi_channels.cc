#include "watchdog/diagnosis/mpi_channels.h"

#include <algorithm>

#include "watchdog/diagnosis/peer_counts.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

// The two records of an exchange bear its function; the send comes first.
bool IsExchange(Function function) {
  return function == Function::MPI_Sendrecv || function == Function::MPI_Sendrecv_replace ||
         function == Function::MPI_Isendrecv || function == Function::MPI_Isendrecv_replace;
}

bool ReceivesAlone(Function function) {
  switch (function) {
    case Function::MPI_Recv:
    case Function::MPI_Irecv:
    case Function::MPI_Recv_init:
    case Function::MPI_Mrecv:
    case Function::MPI_Imrecv: return true;
    default: return false;
  }
}

bool ByPosition(const Call* a, const Call* b) { return a->position < b->position; }

std::uint64_t EndOf(const std::vector<const Call*>& calls) { return calls.empty() ? 0 : calls.back()->position + 1; }

// The last position up to which both sides have the same messages; none: the rings do not show one.
std::optional<std::uint64_t> LastCut(const Channel& channel, std::uint64_t received) {
  for (auto receipt = channel.receipts.rbegin(); receipt != channel.receipts.rend(); ++receipt) {
    const auto send = std::lower_bound(channel.sends.begin(), channel.sends.end(), *receipt, ByPosition);
    if (send == channel.sends.end() || (*send)->position != (*receipt)->position) continue;
    if ((*send)->chain == (*receipt)->chain) return (*receipt)->position + 1;
  }
  const bool from_the_first = !channel.sends.empty() && channel.sends.front()->position == 0 &&
                              (received == 0 || (!channel.receipts.empty() && channel.receipts.front()->position == 0));
  if (from_the_first) return 0;
  return std::nullopt;
}

// What both sides have between the cuts is paired by tag; what the sender has beyond that is under way.
void Pair(Channel* channel, std::uint64_t sent, std::uint64_t received) {
  const std::optional<std::uint64_t> cut = LastCut(*channel, received);
  if (!cut) {
    channel->known = sent == received;
    return;
  }
  std::vector<const Call*> open;
  for (const Call* send : channel->sends)
    if (send->position >= *cut) open.push_back(send);
  channel->known = EndOf(channel->receipts) == received && EndOf(channel->sends) == sent;
  for (const Call* receipt : channel->receipts) {
    if (receipt->position < *cut) continue;
    const auto send =
        std::find_if(open.begin(), open.end(), [&](const Call* call) { return call->tag == receipt->tag; });
    if (send == open.end()) {
      channel->known = false;  // read at another instant than the sender
      continue;
    }
    channel->met.emplace_back(*send, receipt);
    open.erase(send);
  }
  channel->under_way = std::move(open);
}

// Before the last cut: one by one, wherever both sides agree before and after a message.
void PairBeforeCut(Channel* channel) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < channel->receipts.size(); ++i) {
    const Call& receipt = *channel->receipts[i];
    while (next < channel->sends.size() && channel->sends[next]->position < receipt.position) ++next;
    if (next == channel->sends.size()) return;
    const Call& send = *channel->sends[next];
    if (send.position == receipt.position && send.chain == receipt.chain && send.tag == receipt.tag)
      channel->met.emplace_back(&send, &receipt);
  }
}

}  // namespace

bool IsSend(const Call& call) {
  if (!functions::IsMpi(call.function) || !functions::IsMessage(call.function)) return false;
  const Function function = functions::WithSmallCounts(call.function);
  return IsExchange(function) ? call.group == call.slot + 1 : !ReceivesAlone(function);
}

bool IsReceive(const Call& call) {
  return functions::IsMpi(call.function) && functions::IsMessage(call.function) && !IsSend(call);
}

bool IsOpen(const Call& receive) {
  if ((receive.flags & (format::kCancelled | format::kForgotten | format::kNoPartner)) != 0) return false;
  if (functions::IsProbe(receive.function)) return receive.returned_ns == 0;
  if (receive.position != format::kNotMatched) return false;
  return receive.returned_ns == 0 || ((receive.flags & format::kRequest) != 0 && receive.completed_ns == 0);
}

bool Takes(const Call& receive, std::uint32_t sender, std::int32_t tag) {
  const bool from = (receive.flags & format::kAnySource) != 0 || receive.root == static_cast<std::int32_t>(sender);
  return from && ((receive.flags & format::kAnyTag) != 0 || receive.tag == tag);
}

Channels::Channels(const View& view) {
  const PeerCounts counts(view);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    if (!comm.comparable || comm.members.empty() || (comm.members.front().comm->flags & format::kCommMpi) == 0)
      continue;
    const int index = static_cast<int>(c);
    for (const Member& member : comm.members) {
      for (const Call* call : member.messages) {
        if (call->root < 0 || (call->flags & format::kNoPartner) != 0) continue;
        const auto peer = static_cast<std::uint32_t>(call->root);
        if (IsSend(*call))
          channels_[{index, member.comm->rank, peer}].sends.push_back(call);
        else if (call->position != format::kNotMatched)
          channels_[{index, peer, member.comm->rank}].receipts.push_back(call);
      }
    }
  }
  for (auto& [key, channel] : channels_) {
    const auto [comm, sender, receiver] = key;
    channel.sender = view.comms[comm].OfRank(sender);
    channel.receiver = view.comms[comm].OfRank(receiver);
    std::stable_sort(channel.sends.begin(), channel.sends.end(), ByPosition);
    std::stable_sort(channel.receipts.begin(), channel.receipts.end(), ByPosition);
    if (channel.sender == nullptr || channel.receiver == nullptr) continue;
    const MessageCounts* out = counts.Of(*channel.sender, receiver);
    const MessageCounts* in = counts.Of(*channel.receiver, sender);
    PairBeforeCut(&channel);
    Pair(&channel, out ? out->sends : 0, in ? in->receives : 0);
  }
  for (std::size_t c = 0; c < view.comms.size(); ++c) Claim(view, static_cast<int>(c));
}

// Open receives take messages in the order in which they were posted.
void Channels::Claim(const View& view, int comm) {
  for (const Member& member : view.comms[comm].members) {
    for (const Call* receive : member.messages) {
      if (!IsReceive(*receive) || !IsOpen(*receive)) continue;
      for (auto at = channels_.lower_bound({comm, 0, 0}); at != channels_.end() && std::get<0>(at->first) == comm;
           ++at) {
        const auto [index, sender, receiver] = at->first;
        if (receiver != member.comm->rank) continue;
        const auto send = std::find_if(at->second.under_way.begin(), at->second.under_way.end(),
                                       [&, from = sender](const Call* call) {
                                         return !claimed_.contains(call) && Takes(*receive, from, call->tag);
                                       });
        if (send == at->second.under_way.end()) continue;
        claims_[receive] = *send;
        at->second.claimed.emplace_back(*send, receive);
        claimed_.insert(*send);
        break;
      }
    }
  }
}

const Channel* Channels::Of(int comm, std::uint32_t sender, std::uint32_t receiver) const {
  const auto found = channels_.find({comm, sender, receiver});
  return found == channels_.end() ? nullptr : &found->second;
}

bool Channels::Free(const Call* send) const { return !claimed_.contains(send); }

const Call* Channels::ClaimOf(const Call* receive) const {
  const auto found = claims_.find(receive);
  return found == claims_.end() ? nullptr : found->second;
}

}  // namespace ncclwatch::diagnosis
