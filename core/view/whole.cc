#include "core/view/whole.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/reader/left_out.h"
#include "core/view/peer_counts.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

bool Sifted(const View& view, const Member& member) { return view.process(member).box->left_out > 0; }

std::uint64_t EndOf(const Member& member) {
  return std::max(member.left_out.end, member.calls.empty() ? 0 : member.calls.back()->position + 1);
}

bool NothingBehind(const Member& member) { return member.entered == member.comm->entered; }

// At the newest position that both hold, their pasts are not equal.
bool Parted(const Member& a, const Member& b) {
  if (a.entered == b.entered && a.comm->chain == b.comm->chain && NothingBehind(a) && NothingBehind(b)) return false;
  const std::uint64_t last = std::min(EndOf(a), EndOf(b)) - 1;
  const Call* at_a = a.At(last);
  const Call* at_b = b.At(last);
  return at_a != nullptr && at_b != nullptr && at_a->chain != at_b->chain;
}

void FindParted(const View& view, const CommView& comm, std::set<int>* wanted) {
  if (!comm.comparable) return;
  const std::vector<const Member*> order = InOrderOfProgress(comm);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (!Sifted(view, *order[i - 1]) && !Sifted(view, *order[i])) continue;
    if (!Parted(*order[i - 1], *order[i])) continue;
    wanted->insert(order[i - 1]->process);
    wanted->insert(order[i]->process);
  }
}

using Messages = std::set<std::tuple<Function, std::int32_t, std::uint64_t>>;  // peer, position

Messages MessagesOf(const Member& member) {
  Messages messages;
  for (const Call* call : member.messages) messages.insert({call->function, call->root, call->position});
  return messages;
}

// Messages that are not over, and whose other end has been called, long ago.
void FindPartners(const View& view, const CommView& comm, std::set<int>* wanted) {
  if (!comm.comparable) return;
  for (const Member& member : comm.members) {
    for (const Call* call : member.messages) {
      const Member* peer = call->root < 0 ? nullptr : comm.OfRank(static_cast<std::uint32_t>(call->root));
      if (peer == nullptr || (call->returned_ns != 0 && !member.Outstanding(*call)) || !Sifted(view, *peer) ||
          wanted->contains(peer->process))
        continue;
      const Function other_end = call->function == Function::ncclSend ? Function::ncclRecv : Function::ncclSend;
      const auto found = std::find_if(peer->messages.begin(), peer->messages.end(), [&](const Call* other) {
        return other->function == other_end && other->position == call->position &&
               other->root == static_cast<std::int32_t>(member.comm->rank);
      });
      if (found == peer->messages.end()) wanted->insert(peer->process);
    }
  }
}

// Messages that the other end has not called yet, and that are not among those at hand.
void FindUnpaired(const View& view, const CommView& comm, const PeerCounts& counts, std::set<int>* wanted) {
  if (!comm.comparable) return;
  for (const Member& member : comm.members) {
    if (!Sifted(view, member) || wanted->contains(member.process)) continue;
    const Messages at_hand = MessagesOf(member);
    for (const reader::PeerCount& own : view.process(member).box->peers) {
      if (own.communicator != member.comm->index || own.generation != (member.comm->generation & 0xffffffu)) continue;
      const Member* peer = comm.OfRank(own.peer);
      if (peer == nullptr) continue;
      const MessageCounts* other = counts.Of(*peer, member.comm->rank);
      const auto missing = [&](Function function, std::uint64_t made, std::uint64_t met) {
        return met < made && !at_hand.contains({function, static_cast<std::int32_t>(own.peer), met});
      };
      if (missing(Function::ncclSend, own.sends, other == nullptr ? 0 : other->receives) ||
          missing(Function::ncclRecv, own.receives, other == nullptr ? 0 : other->sends))
        wanted->insert(member.process);
    }
  }
}

// Messages of one size in a row.
struct Run {
  std::uint64_t from = 0, end = 0;  // positions
  std::uint64_t bytes = 0;
};
using Runs = std::map<std::int32_t, std::vector<Run>>;  // by peer

Runs RunsOf(const View& view, const Member& member, const PeerCounts& counts, Function function) {
  Runs runs;
  const std::uint64_t sizes_until = view.process(member).box->sizes_until;
  for (const Call* call : member.messages) {
    if (call->function != function || call->root < 0) continue;
    std::vector<Run>& of_peer = runs[call->root];
    if (!of_peer.empty() && call->slot < sizes_until) of_peer.back().end = std::max(of_peer.back().end, call->position);
    of_peer.push_back({call->position, call->position + 1, BytesOf(*call)});
  }
  if (sizes_until != UINT64_MAX) return runs;
  for (auto& [peer, of_peer] : runs) {
    const MessageCounts* made = counts.Of(member, static_cast<std::uint32_t>(peer));
    if (made != nullptr)
      of_peer.back().end = std::max(of_peer.back().end, function == Function::ncclSend ? made->sends : made->receives);
  }
  return runs;
}

bool Unequal(const std::vector<Run>& sends, const std::vector<Run>& receives) {
  auto send = sends.begin(), receive = receives.begin();
  while (send != sends.end() && receive != receives.end()) {
    const bool meet = std::max(send->from, receive->from) < std::min(send->end, receive->end);
    if (meet && send->bytes != receive->bytes) return true;
    if (send->end <= receive->end)
      ++send;
    else
      ++receive;
  }
  return false;
}

// Sends and receives that meet and have not the same size.
void FindUnequal(const View& view, const CommView& comm, const PeerCounts& counts, std::set<int>* wanted) {
  if (!comm.comparable) return;
  std::map<const Member*, Runs> receives;
  for (const Member& member : comm.members)
    if (!member.messages.empty()) receives[&member] = RunsOf(view, member, counts, Function::ncclRecv);
  for (const Member& sender : comm.members) {
    if (sender.messages.empty()) continue;
    for (const auto& [peer, sends] : RunsOf(view, sender, counts, Function::ncclSend)) {
      const Member* receiver = comm.OfRank(static_cast<std::uint32_t>(peer));
      if (receiver == nullptr || (!Sifted(view, sender) && !Sifted(view, *receiver))) continue;
      const auto known = receives.find(receiver);
      if (known == receives.end()) continue;
      const auto from_it = known->second.find(static_cast<std::int32_t>(sender.comm->rank));
      if (from_it == known->second.end() || !Unequal(sends, from_it->second)) continue;
      wanted->insert(sender.process);
      wanted->insert(receiver->process);
    }
  }
}

}  // namespace

std::vector<const Member*> InOrderOfProgress(const CommView& comm) {
  std::vector<const Member*> order;
  for (const Member& member : comm.members) {
    if (EndOf(member) > 0) order.push_back(&member);
  }
  std::sort(order.begin(), order.end(), [](const Member* a, const Member* b) {
    return std::make_tuple(a->entered, a->comm->chain, a->comm->rank) <
           std::make_tuple(b->entered, b->comm->chain, b->comm->rank);
  });
  return order;
}

void PutBack(View* view) {
  if (std::none_of(view->processes.begin(), view->processes.end(),
                   [](const Process& process) { return process.box->left_out > 0; }))
    return;
  const PeerCounts counts(*view);
  std::set<int> wanted;
  for (const CommView& comm : view->comms) {
    FindParted(*view, comm, &wanted);
    FindPartners(*view, comm, &wanted);
    FindUnpaired(*view, comm, counts, &wanted);
    FindUnequal(*view, comm, counts, &wanted);
  }
  for (const int index : wanted) {
    Process& process = view->processes[index];
    process.restored_calls = reader::ReadLeftOut(*process.box);
    process.cut_off = process.restored_calls.size() < process.box->left_out;
  }
  std::vector<std::vector<Member*>> members(view->processes.size());
  for (CommView& comm : view->comms) {
    for (Member& member : comm.members)
      if (wanted.contains(member.process)) members[member.process].push_back(&member);
  }
  for (const int process : wanted) FileCalls(&view->processes[process], members[process]);
}

}  // namespace ncclwatch::diagnosis
