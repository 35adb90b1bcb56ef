#include "watchdog/diagnosis/waits/mpi.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "watchdog/diagnosis/calls/mpi_message.h"
#include "watchdog/diagnosis/view/mpi_ended.h"
#include "watchdog/diagnosis/view/mpi_traits.h"
#include "watchdog/diagnosis/waits/stolen_messages.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

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
