#include "core/waits/mpi_near_miss.h"

#include <algorithm>

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// A receive that is waited in, the node that it waits for, and where.
struct Awaited {
  const Call* receive = nullptr;
  int comm = -1;
  int from = -1, to = -1;  // nodes
};

// A message of the same content that differs in one thing: its tag, or its communicator. Others may well be received
// later.
bool WasMeantFor(const Call& send, const Call& receive, bool other_comm) {
  const bool any_tag = (receive.flags & format::kAnyTag) != 0;
  // Of a probe only its tag tells.
  if (functions::IsProbe(receive.function)) return other_comm && !any_tag && send.tag == receive.tag;
  if (send.signature == 0 || send.signature != receive.signature) return false;
  return other_comm ? any_tag || send.tag == receive.tag : !any_tag && send.tag != receive.tag;
}

bool HasReceived(const Channel* channel, std::int32_t tag) {
  return channel != nullptr && std::any_of(channel->receipts.begin(), channel->receipts.end(),
                                           [&](const Call* receipt) { return receipt->tag == tag; });
}

// Messages like the one that is sent and like the one that is waited for have both come before: they are of one order,
// and only a send that waits for its receiver shows that the ranks have different ones.
bool BothAreUsual(const View& view, const Channels& channels, const NearMissMessage& passed) {
  const auto channel = [&](const CommView& comm) {
    const Member* from = InComm(comm, passed.sender->node);
    const Member* to = InComm(comm, passed.receiver->node);
    return from == nullptr || to == nullptr
               ? nullptr
               : channels.Of(static_cast<int>(&comm - view.comms.data()), from->comm->rank, to->comm->rank);
  };
  return (passed.receive->flags & format::kAnyTag) == 0 && HasReceived(channel(*passed.sent_on), passed.send->tag) &&
         HasReceived(channel(*passed.waited_on), passed.receive->tag);
}

std::optional<NearMissMessage> SentOn(const View& view, const Channels& channels, int comm, const Awaited& awaited) {
  const Member* sender = InComm(view.comms[comm], awaited.from);
  const Member* receiver = InComm(view.comms[comm], awaited.to);
  if (sender == nullptr || receiver == nullptr) return std::nullopt;
  const Channel* channel = channels.Of(comm, sender->comm->rank, receiver->comm->rank);
  if (channel == nullptr || !channel->known || channel->lossy) return std::nullopt;
  for (const Call* send : channel->under_way) {
    if (!channels.Free(send) || !WasMeantFor(*send, *awaited.receive, comm != awaited.comm)) continue;
    const NearMissMessage passed{sender, receiver, &view.comms[comm], &view.comms[awaited.comm], send, awaited.receive};
    if (!BothAreUsual(view, channels, passed)) return passed;
  }
  return std::nullopt;
}

// On the communicator of the receive, else on the others that the two share.
std::optional<NearMissMessage> PassedByOf(const View& view, const Channels& channels, const Awaited& awaited) {
  if (auto found = SentOn(view, channels, awaited.comm, awaited)) return found;
  for (std::size_t c = 0; c < view.comms.size(); ++c)
    if (static_cast<int>(c) != awaited.comm)
      if (auto found = SentOn(view, channels, static_cast<int>(c), awaited)) return found;
  return std::nullopt;
}

// The receives in which `node` waits for the other one.
std::vector<Awaited> ReceivesFrom(const View& view, int node, int from) {
  std::vector<Awaited> receives;
  for (const auto& at : view.nodes[node].memberships) {
    const CommView& comm = view.comms[at.first];
    for (const Call* call : view.member(at).messages) {
      if (!IsReceive(*call) || !IsOpen(*call) || !call->BlocksCaller() || call->root < 0) continue;
      const Member* source = comm.OfRank(static_cast<std::uint32_t>(call->root));
      if (source != nullptr && source->node == from) receives.push_back({call, at.first, from, node});
    }
  }
  return receives;
}

// From all that it may come from.
std::vector<Awaited> ReceivesOf(const WaitGraph& graph, const Wait& wait) {
  std::vector<Awaited> receives{{wait.call, wait.comm, wait.other, wait.waiter}};
  for (const int index : graph.out[wait.waiter]) {
    const Wait& other = graph.waits[index];
    if (wait.choice >= 0 && other.choice == wait.choice && other.call == wait.call && other.other != wait.other)
      receives.push_back({other.call, other.comm, other.other, other.waiter});
  }
  return receives;
}

}  // namespace

const Member* InComm(const CommView& comm, int node) {
  const auto found =
      std::find_if(comm.members.begin(), comm.members.end(), [&](const Member& member) { return member.node == node; });
  return found == comm.members.end() ? nullptr : &*found;
}

std::optional<NearMissMessage> FindNearMissMessage(const View& view, const Channels& channels, const WaitGraph& graph,
                                                   const std::vector<const Wait*>& cycle) {
  for (const Wait* wait : cycle) {
    if (wait->what != WaitFor::kMessage || wait->call == nullptr) continue;
    // Of a send that is held, what its receiver waits for instead.
    const std::vector<Awaited> receives =
        IsSend(*wait->call) ? ReceivesFrom(view, wait->other, wait->waiter) : ReceivesOf(graph, *wait);
    for (const Awaited& awaited : receives)
      if (awaited.from >= 0)
        if (auto found = PassedByOf(view, channels, awaited)) return found;
  }
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
