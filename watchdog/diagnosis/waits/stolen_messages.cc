#include "watchdog/diagnosis/waits/stolen_messages.h"

#include <algorithm>
#include <set>

#include "watchdog/diagnosis/calls/mpi_message.h"
#include "watchdog/diagnosis/waits/mpi.h"
#include "watchdog/diagnosis/waits/mpi_proofs.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr int kMostRanks = 64;  // that are looked at: each asks all waits

// A receive that is waited in, and where.
struct Served {
  int comm = -1;
  const Member* member = nullptr;
  const Call* receive = nullptr;
};

bool IsOver(const Call& call) { return (call.flags & format::kRequest) != 0 && call.completed_ns != 0; }

// They travel by themselves: no more than their send is needed.
bool IsSmall(const Call& send) { return send.bytes <= kAlwaysBuffered; }
bool MustWait(const Call& send) { return (send.flags & format::kSynchronous) != 0 || !IsSmall(send); }

// The receives in which the rank stands, if it stands in nothing else, and each may have its message; else none.
std::vector<Served> ServedReceives(const View& view, const Channels& channels, const Node& node) {
  std::vector<Served> served;
  for (const auto& at : node.memberships) {
    const Member& member = view.member(at);
    const auto holds = [](const Call* call) { return call->BlocksCaller() && !IsOver(*call); };
    if (std::any_of(member.calls.begin(), member.calls.end(), holds)) return {};
    if (std::any_of(member.probes.begin(), member.probes.end(), holds)) return {};
    for (const Call* call : member.messages) {
      if (!holds(call) || (IsSend(*call) && !MustWait(*call))) continue;
      const Call* send = IsReceive(*call) && IsOpen(*call) ? channels.ClaimOf(call) : nullptr;
      if (send == nullptr || !IsSmall(*send) || call->wait_any) return {};
      served.push_back({at.first, &member, call});
    }
  }
  return served;
}

// All that its sender has sent it, and is not received yet.
std::size_t MessagesFor(const Channels& channels, const Served& named) {
  const auto sender = static_cast<std::uint32_t>(named.receive->root);
  const Channel* channel = channels.Of(named.comm, sender, named.member->comm->rank);
  return channel == nullptr ? 0 : std::count_if(channel->under_way.begin(), channel->under_way.end(), [&](auto* send) {
    return Takes(*named.receive, sender, send->tag);
  });
}

// An earlier one takes its only message as well, and may have another one's.
bool MayBeEaten(const Channels& channels, const std::vector<Served>& served, const Served& named) {
  const Call& receive = *named.receive;
  if ((receive.flags & format::kAnySource) != 0 || MessagesFor(channels, named) != 1) return false;
  const Call& send = *channels.ClaimOf(&receive);
  return std::any_of(served.begin(), served.end(), [&](const Served& other) {
    return other.member == named.member && other.receive->slot < receive.slot &&
           (other.receive->flags & format::kAnySource) != 0 &&
           Takes(*other.receive, static_cast<std::uint32_t>(receive.root), send.tag);
  });
}

bool StandsLong(const View& view, const Served& named) {
  return view.now_ns - HeldSince(view, *named.member, *named.receive) >= kHeldNs;
}

Wait WaitOf(const View& view, int comm_index, const Member& member, const Call& call) {
  const CommView& comm = view.comms[comm_index];
  const Member& other = *comm.OfRank(static_cast<std::uint32_t>(call.root));
  Wait wait = WaitBetween(view, comm_index, static_cast<int>(&member - comm.members.data()), other);
  wait.what = WaitFor::kMessage;
  wait.call = &call;
  wait.since_ns = HeldSince(view, member, call);
  return wait;
}

// What the wildcard receives have not taken waits for them.
std::vector<Wait> SendsTo(const View& view, const Channels& channels, const std::vector<Served>& served) {
  std::vector<Wait> waits;
  std::set<const Call*> told;
  for (const Served& wildcard : served) {
    if ((wildcard.receive->flags & format::kAnySource) == 0) continue;
    for (const auto& [key, channel] : channels.all()) {
      const auto [comm, sender, receiver] = key;
      if (comm != wildcard.comm || channel.receiver != wildcard.member || channel.sender == nullptr) continue;
      for (const Call* send : channel.under_way)
        if (send->BlocksCaller() && !send->wait_any && MustWait(*send) && Takes(*wildcard.receive, sender, send->tag) &&
            told.insert(send).second)
          waits.push_back(WaitOf(view, comm, *channel.sender, *send));
    }
  }
  return waits;
}

// The node comes back to itself, by whichever of the waits.
bool IsInCycle(const std::vector<Wait>& waits, int node) {
  std::set<int> seen;
  for (const Wait& wait : waits)
    if (wait.waiter == node) seen.insert(wait.other);
  for (std::size_t before = 0; before < seen.size() && !seen.contains(node);) {
    before = seen.size();
    for (const Wait& wait : waits)
      if (seen.contains(wait.waiter)) seen.insert(wait.other);
  }
  return seen.contains(node);
}

// The waits of a rank in which a message may have been eaten, and of those who wait for it therefore.
std::vector<Wait> WaitsAround(const View& view, const Channels& channels, const Node& node, int choice) {
  const std::vector<Served> served = ServedReceives(view, channels, node);
  std::vector<Wait> waits;
  for (const Served& named : served)
    if (MayBeEaten(channels, served, named) && StandsLong(view, named))
      waits.push_back(WaitOf(view, named.comm, *named.member, *named.receive));
  if (waits.empty()) return waits;
  // One of several has lost its message: nobody knows which.
  if (waits.size() > 1)
    for (Wait& wait : waits) wait.choice = choice;
  const std::vector<Wait> sends = SendsTo(view, channels, served);
  waits.insert(waits.end(), sends.begin(), sends.end());
  return waits;
}

}  // namespace

void AddStolenMessages(const View& view, const Channels& channels, WaitGraph* graph) {
  std::vector<char> waits(view.nodes.size(), 0);
  int choice = 0;
  for (const Wait& wait : graph->waits) {
    waits[wait.waiter] = 1;
    choice = std::max(choice, wait.choice + 1);
  }
  int looked = 0;
  for (int node = 0; node < std::ssize(view.nodes) && looked < kMostRanks; ++node) {
    if (waits[node] || graph->blocked[node] || view.process(view.nodes[node]).outcome.gone()) continue;
    const std::vector<Wait> around = WaitsAround(view, channels, view.nodes[node], choice++);
    if (around.empty()) continue;
    ++looked;
    const std::size_t before = graph->waits.size();
    graph->waits.insert(graph->waits.end(), around.begin(), around.end());
    // Else the rank itself is the one that holds up others.
    if (!IsInCycle(graph->waits, node)) graph->waits.resize(before);
  }
}

}  // namespace ncclwatch::diagnosis
