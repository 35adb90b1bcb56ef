#include "core/waits/mpi.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "core/calls/mpi_message.h"
#include "core/mpi/channels.h"
#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"
#include "core/waits/mpi_proofs.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// Edges of the wait-for graph for a rank that stands in a wait although there is a message for each of its receives:
// a wildcard receive has taken what a later one needs, which names its sender. Which message a receive has got is told
// only when its wait is over, so that this is known by time alone.

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
  std::set<const Call*> reported;
  for (const Served& wildcard : served) {
    if ((wildcard.receive->flags & format::kAnySource) == 0) continue;
    for (const auto& [key, channel] : channels.all()) {
      const auto [comm, sender, receiver] = key;
      if (comm != wildcard.comm || channel.receiver != wildcard.member || channel.sender == nullptr) continue;
      for (const Call* send : channel.under_way)
        if (send->BlocksCaller() && !send->wait_any && MustWait(*send) && Takes(*wildcard.receive, sender, send->tag) &&
            reported.insert(send).second)
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

// Once all other waits for messages and collectives are in the graph.
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

// A loop of tests makes one within it, unless its rank waits for a processor.
constexpr std::int64_t kSilent_ns = 1'000'000'000;

class MpiMessages {
 public:
  MpiMessages(const View& view, const Channels& channels, WaitGraph* graph)
      : view_(view), channels_(channels), graph_(graph) {}

  void Add(int comm_index) {
    const CommView& comm = view_.comms[comm_index];
    for (std::size_t m = 0; m < comm.members.size(); ++m) {
      const Member& member = comm.members[m];
      if (member.node < 0 || !member.alive_in() || view_.process(member).outcome.gone()) continue;
      if (HasCalledFinalize(view_.process(member))) continue;
      for (const Call* call : member.messages) AddCall(comm_index, static_cast<int>(m), *call);
      for (const Call* call : member.calls)
        if (call->wait_any && call->BlocksCaller()) AddCollective(comm_index, static_cast<int>(m), *call);
      for (const Call* probe : member.probes) AddReceive(comm_index, static_cast<int>(m), *probe);
    }
  }

  // Of one of the requests of an MPI_Waitany nothing is known here (of a window, with processes of another world): it
  // may end at any time.
  void FreeWhatOthersEnd() {
    for (std::size_t n = 0; n < view_.nodes.size(); ++n) {
      const Process& process = view_.process(view_.nodes[n]);
      for (const Call& call : process.box->calls)
        if (call.wait_any && call.BlocksCaller() && !heard_.contains(&call))
          free_.insert(ChoiceOf(static_cast<int>(n), call));
    }
  }

  // A choice of which one way is open binds nobody.
  void DropFree() {
    std::erase_if(graph_->waits, [&](const Wait& wait) { return free_.contains(wait.choice); });
  }

 private:
  void AddCall(int comm_index, int member_index, const Call& call) {
    if (!call.BlocksCaller()) return;
    if (call.wait_any) heard_.insert(&call);
    const std::size_t before = graph_->waits.size();
    // What is being cancelled ends whatever others do.
    if ((call.flags & (format::kNoPartner | format::kCancelled)) != 0)
      graph_->met[&call] = {};
    else if (IsSend(call))
      AddSend(comm_index, member_index, call);
    else
      AddReceive(comm_index, member_index, call);
    if (call.wait_any && graph_->waits.size() == before)
      free_.insert(ChoiceOf(view_.comms[comm_index].members[member_index].node, call));
  }

  // One of the requests of an MPI_Waitany: any of those that have not come to it may be all that it needs.
  void AddCollective(int comm_index, int member_index, const Call& call) {
    const CommView& comm = view_.comms[comm_index];
    const Member& member = comm.members[member_index];
    heard_.insert(&call);
    const int choice = ChoiceOf(member.node, call);
    const std::size_t before = graph_->waits.size();
    for (const Member& other : comm.members) {
      if (other.entered > call.position) continue;
      AddWait(comm_index, member_index, call, other, choice);
    }
    if (graph_->waits.size() == before || comm.members.size() < comm.size) free_.insert(choice);
    for (std::size_t i = before; i < graph_->waits.size(); ++i) {
      graph_->waits[i].what = WaitFor::kCollective;
      graph_->waits[i].proven = false;
    }
  }

  void AddSend(int comm_index, int member_index, const Call& call) {
    const CommView& comm = view_.comms[comm_index];
    const Member& member = comm.members[member_index];
    if ((call.flags & format::kBuffered) != 0) {
      graph_->met[&call] = {};
      return;
    }
    const Member* to = call.root < 0 ? nullptr : comm.OfRank(static_cast<std::uint32_t>(call.root));
    const Channel* channel = to ? channels_.Of(comm_index, member.comm->rank, to->comm->rank) : nullptr;
    if (channel == nullptr || !channel->known) return;
    const bool under_way = IsUnderWay(*channel, call);
    if (!channel->lossy && to->node >= 0 && (!under_way || channels_.IsClaimed(&call))) graph_->met[&call] = {to->node};
    if (!under_way || !channels_.Free(&call)) return;
    AddWait(comm_index, member_index, call, *to, ChoiceOf(member.node, call));
  }

  void AddReceive(int comm_index, int member_index, const Call& call) {
    const CommView& comm = view_.comms[comm_index];
    const Member& member = comm.members[member_index];
    if (!IsOpen(call) || IsMatched(call.function)) return;
    const bool wildcard = (call.flags & format::kAnySource) != 0;
    if (channels_.ClaimOf(&call) != nullptr) {
      const Member* from = wildcard || call.root < 0 ? nullptr : comm.OfRank(static_cast<std::uint32_t>(call.root));
      if (from != nullptr && from->node >= 0) graph_->met[&call] = {from->node};
      return;
    }
    const auto may_send = [&](const Member& other) {
      if (wildcard) return !HasLeft(other);
      return other.rank_known() && other.comm->rank == static_cast<std::uint32_t>(call.root);
    };
    if (wildcard && (comm.members.size() < comm.size || AnotherThreadIsFree(view_.process(member), call))) return;
    for (const Member& other : comm.members)
      if (may_send(other) && Unclear(comm_index, other, member)) return;
    for (const Member& other : comm.members)
      if (may_send(other))
        AddWait(comm_index, member_index, call, other,
                wildcard ? NewChoice(member.node, call) : ChoiceOf(member.node, call));
  }

  // A thread of its own that calls MPI and is in no call: what serves others is stopped by a message to oneself.
  static bool AnotherThreadIsFree(const Process& process, const Call& call) {
    if (OneThread(process)) return false;
    const reader::BoxImage& box = *process.box;
    std::map<std::uint32_t, bool> free;
    if (call.thread != box.pid) free[box.pid] = true;  // the first thread of the process, whatever the ring has lost
    for (const Call& one : box.calls)
      if (functions::IsMpi(one.function) && one.thread != call.thread) free[one.thread] = one.returned_ns != 0;
    return std::any_of(free.begin(), free.end(), [](const auto& thread) { return thread.second; });
  }

  static bool HasLeft(const Member& member) {
    return !member.alive_in() && member.comm->state != format::CommunicatorState::kInitializing;
  }

  // What may be under way from there nobody can tell: then nobody is said to be waited for.
  bool Unclear(int comm_index, const Member& from, const Member& to) const {
    if (channels_.HasUnseen(from) || channels_.HasUnseen(to)) return true;
    const Channel* channel = channels_.Of(comm_index, from.comm->rank, to.comm->rank);
    return channel != nullptr && !channel->known;
  }

  // A send that a receive which the ring has lost may take.
  bool MayBeMet(int comm_index, const Member& member, const Call& call, const Member& other) const {
    const Channel* channel = IsSend(call) ? channels_.Of(comm_index, member.comm->rank, other.comm->rank) : nullptr;
    return channel != nullptr && channel->lossy;
  }

  static bool IsUnderWay(const Channel& channel, const Call& call) {
    return std::find(channel.under_way.begin(), channel.under_way.end(), &call) != channel.under_way.end();
  }

  void AddWait(int comm_index, int member_index, const Call& call, const Member& other, int choice) {
    const Member& member = view_.comms[comm_index].members[member_index];
    if (other.node == member.node && !IsAloneWith(comm_index, member, call)) return;
    if (HasStoppedAsking(member, call)) return;
    Wait wait = WaitBetween(view_, comm_index, member_index, other);
    wait.what = WaitFor::kMessage;
    wait.position = call.position == format::kNotMatched ? 0 : call.position;
    wait.call = &call;
    wait.proven = !call.polled && (call.flags & format::kPolls) == 0 && !MayBeMet(comm_index, member, call, other);
    wait.since_ns = HeldSince(view_, member, call);
    wait.choice = choice;
    graph_->waits.push_back(wait);
  }

  // Its rank has tested for it, or probed, and does something else now: outside of MPI, since a call ends the row.
  bool HasStoppedAsking(const Member& member, const Call& call) const {
    const Call* poll = (call.flags & format::kPolls) != 0 ? &call : call.polled ? PollOf(*member.box, call) : nullptr;
    if (poll == nullptr || poll->count == 0) return false;
    const Process& process = view_.process(member);
    const std::int64_t last_ns = process.At(poll->completed_ns);
    const std::int64_t between_ns = (last_ns - process.At(poll->entered_ns)) / static_cast<std::int64_t>(poll->count);
    return view_.now_ns - last_ns > std::max(kSilent_ns, 10 * between_ns);
  }

  static const Call* PollOf(const reader::BoxImage& box, const Call& call) {
    const auto poll = std::lower_bound(box.calls.begin(), box.calls.end(), call.waiter,
                                       [](const Call& one, std::uint64_t wanted) { return one.slot + 1 < wanted; });
    return poll != box.calls.end() && poll->slot + 1 == call.waiter ? &*poll : nullptr;
  }

  // Who waits for a message of its own in a blocking call does not come to the other half of it, if nobody else could
  // send it, or take it.
  bool IsAloneWith(int comm_index, const Member& member, const Call& call) const {
    const bool wildcard = (call.flags & format::kAnySource) != 0 && view_.comms[comm_index].size > 1;
    const bool polls = call.polled || (call.flags & format::kPolls) != 0;
    return !wildcard && !polls && !call.wait_any && OneThread(view_.process(member));
  }

  // All requests of one MPI_Waitany are one choice; so are all that a wildcard receive may come from.
  int ChoiceOf(int node, const Call& call) {
    if (!call.wait_any) return -1;
    const auto [found, fresh] = of_waiter_.try_emplace({node, call.waiter}, next_choice_);
    if (fresh) ++next_choice_;
    return found->second;
  }
  int NewChoice(int node, const Call& call) {
    if (call.wait_any) return ChoiceOf(node, call);
    const auto [found, fresh] = of_call_.try_emplace(&call, next_choice_);
    if (fresh) ++next_choice_;
    return found->second;
  }

  const View& view_;
  const Channels& channels_;
  WaitGraph* const graph_;
  std::map<std::pair<int, std::uint64_t>, int> of_waiter_;
  std::map<const Call*, int> of_call_;
  std::set<int> free_;                     // choices
  std::unordered_set<const Call*> heard_;  // of choices
  int next_choice_ = 0;
};

}  // namespace

std::int64_t HeldSince(const View& view, const Member& member, const Call& call) {
  const std::vector<Call>& calls = member.box->calls;
  const auto waiter = std::lower_bound(calls.begin(), calls.end(), call.awaited ? call.waiter : UINT64_MAX,
                                       [](const Call& one, std::uint64_t wanted) { return one.slot + 1 < wanted; });
  const std::int64_t since_ns = waiter == calls.end() ? INT64_MIN : waiter->entered_ns;
  return view.process(member).At(std::max(call.entered_ns, since_ns));
}

void AddMessagesOfMpi(const View& view, WaitGraph* graph) {
  if (std::none_of(view.comms.begin(), view.comms.end(), SpeaksMpi)) return;
  const Channels channels(view);
  MpiMessages messages(view, channels, graph);
  for (std::size_t c = 0; c < view.comms.size(); ++c)
    if (view.comms[c].comparable && SpeaksMpi(view.comms[c])) messages.Add(static_cast<int>(c));
  messages.FreeWhatOthersEnd();
  messages.DropFree();
  AddStolenMessages(view, channels, graph);
}

}  // namespace ncclwatch::diagnosis
