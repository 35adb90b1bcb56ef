#include "core/waits/unmatched.h"

#include <algorithm>

#include "core/calls/mpi_message.h"
#include "core/view/mpi_traits.h"
#include "core/view/peer_counts.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

bool Counts(const View& view, const Member& member) {
  const reader::BoxImage& box = *view.process(member).box;
  return box.peers_lost == 0 && !box.from_summary && !box.dump && member.node >= 0;
}

bool IsOf(const Call& call, bool send, std::uint32_t peer) {
  const bool sends = functions::IsMpi(call.function) ? IsSend(call) : call.function == Function::ncclSend;
  return sends == send && call.root == static_cast<std::int32_t>(peer);
}

const Call* CallAt(const Unmatched& unmatched) {
  for (const Call* call : unmatched.owner->messages)
    if (IsOf(*call, unmatched.send, unmatched.peer->comm->rank) && call->position == unmatched.met) return call;
  return nullptr;
}

// MPI counts a receive when its message has come: those that wait are not among them.
Unmatched WaitingReceives(int comm, const Member& owner, const Member& peer, const MessageCounts& own) {
  Unmatched unmatched{comm, &owner, &peer, false, own.receives, 0, nullptr};
  for (const Call* call : owner.messages) {
    if (!IsReceive(*call) || !IsOpen(*call) || !IsOf(*call, false, peer.comm->rank)) continue;
    if ((call->flags & format::kAnySource) != 0) continue;
    ++unmatched.alone;
    if (unmatched.call == nullptr) unmatched.call = call;
  }
  return unmatched;
}

void AddPair(const PeerCounts& counts, int index, bool mpi, const Member& owner, const Member& peer,
             std::vector<Unmatched>* all) {
  constexpr MessageCounts kNoMessages;
  const MessageCounts* found = counts.Of(owner, peer.comm->rank);
  const MessageCounts* other = counts.Of(peer, owner.comm->rank);
  const MessageCounts& own = found != nullptr ? *found : kNoMessages;
  const MessageCounts& theirs = other != nullptr ? *other : kNoMessages;
  if (own.sends > theirs.receives) {
    all->push_back({index, &owner, &peer, true, theirs.receives, own.sends - theirs.receives, nullptr});
    all->back().call = CallAt(all->back());
  }
  if (mpi) {
    const Unmatched waiting = WaitingReceives(index, owner, peer, own);
    if (waiting.alone > 0) all->push_back(waiting);
  } else if (own.receives > theirs.sends) {
    all->push_back({index, &owner, &peer, false, theirs.sends, own.receives - theirs.sends, nullptr});
    all->back().call = CallAt(all->back());
  }
}

// Whom the member has exchanged messages with, or waits for.
std::vector<std::uint32_t> PeersOf(const View& view, const Member& member) {
  std::vector<std::uint32_t> peers;
  for (const reader::PeerCount& count : view.process(member).box->peers)
    if (count.communicator == member.comm->index &&
        (count.generation & 0xffffffu) == (member.comm->generation & 0xffffffu))
      peers.push_back(count.peer);
  for (const Call* call : member.messages)
    if (call->root >= 0) peers.push_back(static_cast<std::uint32_t>(call->root));
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace

std::vector<Unmatched> FindUnmatched(const View& view) {
  const PeerCounts counts(view);
  std::vector<Unmatched> all;
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    if (!comm.comparable || HasTwoGroups(comm)) continue;
    for (const Member& owner : comm.members) {
      if (!Counts(view, owner)) continue;
      for (const std::uint32_t rank : PeersOf(view, owner)) {
        const Member* peer = comm.OfRank(rank);
        if (peer == nullptr || peer == &owner || !Counts(view, *peer)) continue;
        AddPair(counts, static_cast<int>(c), SpeaksMpi(comm), owner, *peer, &all);
      }
    }
  }
  return all;
}

}  // namespace ncclwatch::diagnosis
