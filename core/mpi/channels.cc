#include "core/mpi/channels.h"

#include <algorithm>

#include "core/calls/mpi_message.h"
#include "core/view/peer_counts.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

bool ByPosition(const Call* a, const Call* b) { return a->position < b->position; }

std::uint64_t EndOf(const std::vector<const Call*>& calls) { return calls.empty() ? 0 : calls.back()->position + 1; }

// The ring has each of them, from the cut to the last that is counted.
bool AllFrom(const std::vector<const Call*>& calls, std::uint64_t cut, std::uint64_t end) {
  const auto first = std::lower_bound(calls.begin(), calls.end(), cut,
                                      [](const Call* call, std::uint64_t at) { return call->position < at; });
  return std::max(EndOf(calls), cut) == end && static_cast<std::uint64_t>(calls.end() - first) == end - cut;
}

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
  channel->known = AllFrom(channel->receipts, *cut, received) && AllFrom(channel->sends, *cut, sent);
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

// It has taken messages of its own, or will: which ones is not told before they are received.
bool HasMatched(const Call& probe) {
  const Function function = functions::WithSmallCounts(probe.function);
  return function == Function::MPI_Mprobe || function == Function::MPI_Improbe;
}

// Of one tag the first receive called gets the first message. It is open which one that is where they ended in another
// order, where an earlier one is open, and where probes took the messages.
void DropDoubtful(std::uint32_t sender, Channel* channel) {
  if (channel->lossy) return channel->met.clear();
  std::unordered_set<std::int32_t> doubtful;             // tags
  std::unordered_map<std::int32_t, std::uint64_t> last;  // slots by tag
  for (const Call* receipt : channel->receipts) {
    const auto [at, fresh] = last.try_emplace(receipt->tag, receipt->slot);
    if (receipt->slot < at->second || IsMatched(receipt->function)) doubtful.insert(receipt->tag);
    at->second = std::max(at->second, receipt->slot);
  }
  for (const Call* probe : channel->receiver->probes)
    for (const auto& [tag, slot] : last)
      if (HasMatched(*probe) && Takes(*probe, sender, tag)) doubtful.insert(tag);
  for (const Call* call : channel->receiver->messages) {
    if (!IsReceive(*call) || call->position != format::kNotMatched || NeverTookPlace(*call)) continue;
    for (const auto& [tag, slot] : last)
      if (call->slot < slot && Takes(*call, sender, tag)) doubtful.insert(tag);
  }
  std::erase_if(channel->met, [&](const auto& pair) { return doubtful.contains(pair.second->tag); });
}

bool HasUnseenMessages(const Process& process) {
  const std::vector<reader::Communicator>& comms = process.box->communicators;
  return std::any_of(comms.begin(), comms.end(),
                     [](const reader::Communicator& comm) { return (comm.flags & format::kCommUnseenMessages) != 0; });
}

}  // namespace

Channels::Channels(const View& view) {
  const PeerCounts counts(view);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    if (!comm.comparable || comm.members.empty() || (comm.members.front().comm->flags & format::kCommMpi) == 0)
      continue;
    const int index = static_cast<int>(c);
    for (const Member& member : comm.members) {
      AddCounted(index, member);
      for (const Call* call : member.messages) {
        if (call->root < 0 || (call->flags & format::kNoPartner) != 0) continue;
        const auto peer = static_cast<std::uint32_t>(call->root);
        if (IsSend(*call))
          channels_[{index, member.comm->rank, peer}].sends.push_back(call);
        else if (IsReceive(*call) && call->position != format::kNotMatched)
          channels_[{index, peer, member.comm->rank}].receipts.push_back(call);
      }
    }
  }
  for (std::size_t p = 0; p < view.processes.size(); ++p)
    if (HasUnseenMessages(view.processes[p])) unseen_.insert(static_cast<int>(p));
  for (auto& [key, channel] : channels_) {
    const auto [comm, sender, receiver] = key;
    channel.sender = view.comms[comm].OfRank(sender);
    channel.receiver = view.comms[comm].OfRank(receiver);
    std::stable_sort(channel.sends.begin(), channel.sends.end(), ByPosition);
    std::stable_sort(channel.receipts.begin(), channel.receipts.end(), ByPosition);
    if (channel.sender == nullptr || channel.receiver == nullptr) continue;
    channel.lossy = (channel.receiver->comm->flags & format::kCommLostReceives) != 0;
    if (HasUnseen(*channel.sender) || HasUnseen(*channel.receiver)) {
      channel.sends.clear();
      channel.receipts.clear();
      continue;
    }
    const MessageCounts* out = counts.Of(*channel.sender, receiver);
    const MessageCounts* in = counts.Of(*channel.receiver, sender);
    PairBeforeCut(&channel);
    Pair(&channel, out ? out->sends : 0, in ? in->receives : 0);
    DropDoubtful(sender, &channel);
  }
  for (std::size_t c = 0; c < view.comms.size(); ++c) Claim(view, static_cast<int>(c));
}

// A channel of which the rings hold nothing any more is one all the same.
void Channels::AddCounted(int comm, const Member& member) {
  for (const reader::PeerCount& peer : member.box->peers) {
    if (peer.communicator != member.comm->index || (peer.generation ^ member.comm->generation) & 0xffffffu) continue;
    if (peer.sends > 0) channels_[{comm, member.comm->rank, peer.peer}];
    if (peer.receives > 0) channels_[{comm, peer.peer, member.comm->rank}];
  }
}

namespace {

bool MayBeTaken(const Call& receive, const Call& by) {
  return &by != &receive && Takes(by, static_cast<std::uint32_t>(receive.root), receive.tag);
}

bool HoldsMatched(const Member& member) {
  const auto taken = std::count_if(member.probes.begin(), member.probes.end(), [](const Call* probe) {
    return HasMatched(*probe) && probe->returned_ns != 0 && (probe->flags & (format::kPolls | format::kNoPartner)) == 0;
  });
  return taken > std::count_if(member.messages.begin(), member.messages.end(),
                               [](const Call* call) { return IsReceive(*call) && IsMatched(call->function); });
}

// Its request was freed: what it gets nobody learns.
bool MayHaveTaken(const Call& receive) {
  return (receive.flags & (format::kForgotten | format::kNoPartner)) == format::kForgotten &&
         receive.position == format::kNotMatched;
}

// Nothing else takes what it takes: all that were posted before have their messages, and none that was posted later
// has had its own, so that the first one under way with its tag is for this one.
bool IsAlone(const Member& member, const Call& receive) {
  if ((receive.flags & format::kAnyTag) != 0) return false;
  const auto takes = [&](const Call* other) {
    if (!IsReceive(*other) || !MayBeTaken(receive, *other)) return false;
    return other->slot > receive.slot || IsOpen(*other) || (other->flags & format::kForgotten) != 0;
  };
  return std::none_of(member.messages.begin(), member.messages.end(), takes) &&
         std::none_of(member.probes.begin(), member.probes.end(),
                      [&](const Call* probe) { return HasMatched(*probe) && MayBeTaken(receive, *probe); });
}

}  // namespace

// Open receives take messages in the order in which they were posted. What an open wildcard receive got is not known:
// what it may have got is not held up, and is there for others all the same.
void Channels::Claim(const View& view, int comm) {
  for (const Member& member : view.comms[comm].members) {
    // A message that a probe has taken and nobody has received so far, if there is one.
    for (const Call* probe : HoldsMatched(member) ? member.probes : std::vector<const Call*>{}) {
      if (!HasMatched(*probe)) continue;
      ForEachTaken(comm, member, *probe, [&](const Call* send) {
        held_.insert(send);
        return false;
      });
    }
    for (const Call* receive : member.messages) {
      if (!IsReceive(*receive)) continue;
      if (MayHaveTaken(*receive)) {
        ForEachTaken(comm, member, *receive, [&](const Call* send) {
          wanted_.insert(send);
          return false;
        });
      }
      if (!IsOpen(*receive)) continue;
      const bool wildcard = (receive->flags & format::kAnySource) != 0;
      ForEachTaken(comm, member, *receive, [&](const Call* send) {
        claims_.try_emplace(receive, send);
        if (!wildcard && IsAlone(member, *receive)) {
          Channel& channel = channels_[{comm, static_cast<std::uint32_t>(receive->root), member.comm->rank}];
          if (channel.known && !channel.lossy) channel.claimed.emplace_back(send, receive);
        }
        (wildcard ? wanted_ : claimed_).insert(send);
        return wildcard;
      });
    }
    for (const Call* probe : member.probes) {
      if (!IsOpen(*probe)) continue;
      ForEachTaken(comm, member, *probe, [&](const Call* send) {
        claims_.try_emplace(probe, send);
        return false;
      });
    }
  }
}

// What is under way to the member and would be taken, until `visit` says that it is enough.
void Channels::ForEachTaken(int comm, const Member& member, const Call& receive,
                            const std::function<bool(const Call*)>& visit) const {
  for (auto at = channels_.lower_bound({comm, 0, 0}); at != channels_.end() && std::get<0>(at->first) == comm; ++at) {
    const auto [index, sender, receiver] = at->first;
    if (receiver != member.comm->rank) continue;
    for (const Call* send : at->second.under_way)
      if (!claimed_.contains(send) && Takes(receive, sender, send->tag) && !visit(send)) return;
  }
}

const Channel* Channels::Of(int comm, std::uint32_t sender, std::uint32_t receiver) const {
  const auto found = channels_.find({comm, sender, receiver});
  return found == channels_.end() ? nullptr : &found->second;
}

bool Channels::MayBeReceived(const Call* send) const { return claimed_.contains(send) || wanted_.contains(send); }

bool Channels::Free(const Call* send) const { return !MayBeReceived(send) && !held_.contains(send); }

const Call* Channels::ClaimOf(const Call* receive) const {
  const auto found = claims_.find(receive);
  return found == claims_.end() ? nullptr : found->second;
}

}  // namespace ncclwatch::diagnosis
