#include "core/waits/collectives.h"

#include <algorithm>
#include <utility>

#include "core/calls/amounts.h"
#include "core/calls/mpi_flow.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// Whoever has said goodbye to a communicator (destroyed, aborted, revoked) waits for nobody in it.
bool MayWait(const View& view, const Member& member) {
  return member.node >= 0 && !view.process(member).outcome.gone() && member.alive_in();
}

Wait InCollective(const View& view, const CommView& comm, int comm_index, int member_index, std::uint64_t position) {
  const Member& member = comm.members[member_index];
  Wait wait;
  wait.waiter = member.node;
  wait.comm = comm_index;
  wait.member = member_index;
  wait.position = position;
  wait.call = member.At(position);
  const Process& process = view.process(member);
  if (wait.call != nullptr) {
    wait.since_ns = process.At(wait.call->entered_ns);
    wait.proven = (wait.call->returned_ns == 0 || member.Outstanding(*wait.call)) && !wait.call->polled;
  } else if (position + 1 == member.comm->entered) {
    wait.since_ns = process.At(member.comm->last.entered_ns);
    wait.proven = position >= member.comm->returned;
  }
  return wait;
}

constexpr std::uint64_t kNone = UINT64_MAX;

// The first position at which the member waits for a member that has entered `entered` collectives and, if it is gone,
// is known to have finished `finished` of them; kNone if it does not.
struct StopReason {
  std::uint64_t entered = 0;
  std::uint64_t unfinished = 0;  // first collective not known to have finished
  bool known = false;            // that it has not: its mark is outstanding
  bool gone = false;
  bool held = false;     // does not run, and so moves nothing to other nodes
  bool left = false;     // destroyed, aborted or revoked it
  bool goes_on = false;  // MPI: from a collective in which it has nothing to wait for before all have come to it
};

StopReason StopReasonOf(const View& view, const Member& member) {
  StopReason reason;
  const Process& process = view.process(member);
  reason.entered = member.entered;
  reason.unfinished = view.Unfinished(member);
  const Call* call = member.Kept(reason.unfinished);  // what was left out is over
  reason.known = call != nullptr && member.Outstanding(*call);
  reason.gone = process.outcome.gone();
  reason.held = process.outcome.held();
  reason.goes_on = (member.comm->flags & format::kCommMpi) != 0;
  reason.left = !member.alive_in() && member.comm->state != format::CommunicatorState::kInitializing;
  return reason;
}

std::uint64_t WaitsAt(const StopReason& waiter, const StopReason& other) {
  if (other.left && other.entered >= waiter.entered) return kNone;
  // What a dead process had entered and not finished died with it.
  const std::uint64_t done = other.gone ? std::min(other.entered, other.unfinished) : other.entered;
  const std::uint64_t position = std::max(waiter.unfinished, done);
  const bool may_have_finished = !waiter.known && other.entered < waiter.entered;
  if (other.gone && done < other.entered && !may_have_finished) return position < waiter.entered ? position : kNone;
  // All are in it, and one of them does not run.
  if (other.held && waiter.known && waiter.unfinished < other.entered && other.unfinished <= waiter.unfinished)
    return waiter.unfinished;
  if (waiter.goes_on && other.entered < waiter.unfinished)
    return waiter.unfinished < waiter.entered ? waiter.unfinished : kNone;
  return waiter.unfinished <= other.entered && other.entered < waiter.entered ? other.entered : kNone;
}

// Whose data the call cannot do without, where that is not everybody's.
std::vector<std::uint32_t> SourcesOf(const Member& member, const Call& call) {
  std::vector<std::uint32_t> sources;
  if (FlowOf(call.function) == Flow::kFromRoot && call.root != static_cast<std::int32_t>(member.comm->rank))
    sources.push_back(static_cast<std::uint32_t>(call.root));
  if (!IsOfNeighbours(call)) return sources;
  for (const reader::CallParts& parts : member.box->parts)
    if (parts.call.slot == call.slot)
      for (const Edge& edge : EdgesOf(parts.receives)) sources.push_back(edge.rank);
  return sources;
}

// Each waits for the hindmost only: whoever is ahead of it waits for it too, so the rest follows. Not so in MPI where
// data comes from some ranks alone: whoever is behind without being one of them holds nobody up as long as those are
// behind too. Of thousands that wait for thousands each waits for so many of them, and so many of them for each; the
// group wait holds the rest.
constexpr std::size_t kEnough = 64;

class Collectives {
 public:
  Collectives(const View& view, int comm_index, std::uint64_t explained_from, WaitGraph* graph)
      : view_(view), comm_index_(comm_index), comm_(view.comms[comm_index]), from_(explained_from), graph_(graph) {
    for (const Member& member : comm_.members) stop_reasons_.push_back(StopReasonOf(view, member));
    SortMembers();
  }

  void Add() {
    for (std::size_t i = 0; i < waiters_.size(); ++i) AddWaits(waiters_[i], still_, i < kEnough);
    GroupWait group_wait;
    for (std::size_t i = 0; i < ahead_.size(); ++i) {
      const int m = ahead_[i];
      if (AddWaits(m, SourcesBehind(m), true)) continue;
      if (AddWaits(m, behind_, i < kEnough)) group_wait.waiters.push_back(comm_.members[m].node);
    }
    if (group_wait.waiters.size() <= kEnough || behind_.size() <= kEnough) return;
    for (const int o : behind_)
      if (comm_.members[o].node >= 0) group_wait.others.push_back(comm_.members[o].node);
    graph_->group_waits.push_back(std::move(group_wait));
  }

 private:
  void SortMembers() {
    // Who is still being told whether it is one of them is none where all are known.
    const auto known = std::count_if(comm_.members.begin(), comm_.members.end(),
                                     [](const Member& member) { return member.rank_known(); });
    const bool complete = SpeaksMpi(comm_) && comm_.size > 0 && std::cmp_greater_equal(known, comm_.size);
    const auto belongs = [&](std::size_t i) { return !complete || comm_.members[i].rank_known(); };
    std::uint64_t hindmost = kNone;
    for (std::size_t i = 0; i < stop_reasons_.size(); ++i)
      if (belongs(i)) hindmost = std::min(hindmost, stop_reasons_[i].entered);
    for (std::size_t i = 0; i < stop_reasons_.size(); ++i) {
      if (!belongs(i)) continue;
      const StopReason& reason = stop_reasons_[i];
      const int m = static_cast<int>(i);
      if (reason.gone || reason.held)
        still_.push_back(m);
      else if (reason.entered == hindmost)
        behind_.push_back(m);
      if (!MayWait(view_, comm_.members[i])) continue;
      waiters_.push_back(m);
      if (reason.entered > hindmost) ahead_.push_back(m);
      if (reason.entered > from_) graph_->blocked[comm_.members[i].node] = true;
    }
    // Those who went first are what the others wait for. The last to arrive tells since when all wait.
    std::stable_sort(still_.begin(), still_.end(), [&](int a, int b) {
      return view_.process(comm_.members[a]).outcome.observed_ns < view_.process(comm_.members[b]).outcome.observed_ns;
    });
    std::stable_sort(ahead_.begin(), ahead_.end(), [&](int a, int b) { return Since(a) > Since(b); });
  }

  std::int64_t Since(int m) const { return view_.process(comm_.members[m]).At(comm_.members[m].comm->last.entered_ns); }

  // For all of them, or for the first; if it waits for none of these, for one of the rest. False: for none.
  bool AddWaits(int m, const std::vector<int>& others, bool all) {
    const std::size_t most = all ? others.size() : kEnough;
    bool any = false;
    for (std::size_t i = 0; i < others.size() && (i < most || !any); ++i) any |= AddWait(m, others[i]);
    return any;
  }

  std::vector<int> SourcesBehind(int m) const {
    std::vector<int> behind;
    const Member& member = comm_.members[m];
    const Call* call = SpeaksMpi(comm_) && !HasTwoGroups(comm_) ? member.At(stop_reasons_[m].unfinished) : nullptr;
    if (call == nullptr) return behind;
    for (const std::uint32_t rank : SourcesOf(member, *call)) {
      const Member* source = comm_.OfRank(rank);
      if (source != nullptr && source->entered <= call->position)
        behind.push_back(static_cast<int>(source - comm_.members.data()));
    }
    return behind;
  }

  bool AddWait(int m, int o) {
    const Member& member = comm_.members[m];
    const Member& other = comm_.members[o];
    if (other.node == member.node) return false;
    const std::uint64_t position = WaitsAt(stop_reasons_[m], stop_reasons_[o]);
    if (position == kNone || position >= from_) return false;
    Wait wait = InCollective(view_, comm_, comm_index_, m, position);
    if (wait.call != nullptr && wait.call->wait_any) return false;  // MPI_Waitany: something else may come first
    wait.other = other.node;
    wait.other_comm_rank = other.comm->rank;
    wait.other_rank = other.node >= 0 ? view_.nodes[other.node].rank : -1;
    graph_->waits.push_back(wait);
    return true;
  }

  const View& view_;
  const int comm_index_;
  const CommView& comm_;
  const std::uint64_t from_;
  WaitGraph* const graph_;
  std::vector<StopReason> stop_reasons_;
  std::vector<int> waiters_, ahead_;  // members that may wait at all; those that have come further than the hindmost
  std::vector<int> still_, behind_;   // gone or held; the hindmost of the others
};

}  // namespace

void AddCollectives(const View& view, int comm_index, std::uint64_t explained_from, WaitGraph* graph) {
  Collectives(view, comm_index, explained_from, graph).Add();
}

}  // namespace ncclwatch::diagnosis
