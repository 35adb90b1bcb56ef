#include "core/waits/mpi_proofs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/calls/mpi_message.h"
#include "core/view/mpi_traits.h"
#include "core/waits/windows.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

// What a rank in a collective cannot do without: MPI may let it wait for others, and need not.
bool NeedsData(const Call& call, std::uint32_t own, std::uint32_t other) {
  switch (functions::WithSmallCounts(call.function)) {
    case Function::MPI_Barrier:
    case Function::MPI_Ibarrier: return true;
    case Function::MPI_Allreduce:
    case Function::MPI_Iallreduce:
    case Function::MPI_Reduce_scatter_block:
    case Function::MPI_Ireduce_scatter_block:
    case Function::MPI_Allgather:
    case Function::MPI_Iallgather:
    case Function::MPI_Alltoall:
    case Function::MPI_Ialltoall: return call.bytes > 0;
    case Function::MPI_Bcast:
    case Function::MPI_Ibcast:
    case Function::MPI_Scatter:
    case Function::MPI_Iscatter: return call.bytes > 0 && other == static_cast<std::uint32_t>(call.root);
    case Function::MPI_Reduce:
    case Function::MPI_Ireduce:
    case Function::MPI_Gather:
    case Function::MPI_Igather: return call.bytes > 0 && own == static_cast<std::uint32_t>(call.root);
    default: return false;
  }
}

// Between two groups each needs the other one, and how much is known of a barrier alone. `color`: communicator.h
bool NeedsOtherGroup(const CommView& comm, const Wait& wait) {
  const Member* other = comm.OfRank(wait.other_comm_rank);
  if (other == nullptr || (comm.members[wait.member].comm->color > 0) == (other->comm->color > 0)) return false;
  return wait.call->function == Function::MPI_Barrier || wait.call->function == Function::MPI_Ibarrier;
}

bool NeedsData(const View& view, const Wait& wait) {
  if (wait.call == nullptr) return false;
  const CommView& comm = view.comms[wait.comm];
  if (HasTwoGroups(comm)) return NeedsOtherGroup(comm, wait);
  return NeedsData(*wait.call, comm.members[wait.member].comm->rank, wait.other_comm_rank);
}

// Such as need not wait in the first epoch of a window, or where nothing has been done in one. Who does not come back
// from it soon does wait.
bool EndsEpochs(const Call& call) {
  return call.function == Function::MPI_Win_fence || call.function == Function::MPI_Win_free;
}

// MPI may take a lock before it is asked for anything under it, or not, and a target that is busy holds up as well.
bool EndsOnlyByIt(const View& view, const Wait& epoch) {
  if (IsOfLocks(epoch.call->function)) return false;
  return AlwaysWaits(epoch.call->function) || view.now_ns - epoch.since_ns >= kHeldNs;
}

// Nobody else can end it.
bool Proven(const View& view, const Wait& wait) {
  const Process& process = view.process(view.nodes[wait.waiter]);
  if (!wait.proven || process.outcome.held() || !OneThread(process)) return false;
  if (wait.what == WaitFor::kEpoch) return EndsOnlyByIt(view, wait);
  if (wait.what == WaitFor::kCollective && !NeedsData(view, wait))
    return wait.call != nullptr && EndsEpochs(*wait.call) && view.now_ns - wait.since_ns >= kHeldNs;
  if (wait.call == nullptr || !IsSend(*wait.call) || (wait.call->flags & format::kSynchronous) != 0) return true;
  return wait.call->bytes > kAlwaysBuffered && view.now_ns - wait.since_ns >= kHeldNs;
}

bool IsStandardSend(const Call* call) {
  return call != nullptr && IsSend(*call) && (call->flags & format::kSynchronous) == 0;
}

}  // namespace

Proofs::Proofs(const View& view, const WaitGraph& graph, const std::vector<int>& nodes)
    : view_(view), graph_(graph), nodes_(nodes) {
  for (const int node : nodes) {
    Join(view.process(view.nodes[node]).box->calls);
    for (const int index : graph.out[node])
      if (const Call* call = graph.waits[index].call) awaited_[call].push_back(graph.waits[index].other);
  }
}

// The two halves of an exchange belong together too.
void Proofs::Join(const std::vector<Call>& calls) {
  std::map<std::uint64_t, std::size_t> of_waiter, of_group;
  const auto join = [&](std::map<std::uint64_t, std::size_t>* groups, std::uint64_t key, const Call& call) {
    const auto [group, fresh] = groups->try_emplace(key, groups_.size());
    if (fresh) groups_.emplace_back();
    groups_[group->second].push_back(&call);
    groups_of_[&call].push_back(group->second);
  };
  for (const Call& call : calls) {
    if (!call.BlocksCaller()) continue;
    if (call.awaited) join(&of_waiter, call.waiter, call);
    if (call.group != 0 && functions::IsMessage(call.function)) join(&of_group, call.group, call);
  }
}

// It ends by what one of the nodes does, or by itself: not before it would MPI have let its rank go on.
bool Proofs::Leads(const Call& call, const std::set<int>& nodes) const {
  if (const auto met = graph_.met.find(&call); met != graph_.met.end()) {
    const int partner = met->second.partner;
    if (partner < 0) return true;
    return nodes.contains(partner) && call.bytes <= kSoonMoved &&
           view_.now_ns - view_.nodes[partner].active_ns >= kHeldNs;
  }
  const auto others = awaited_.find(&call);
  return others != awaited_.end() &&
         std::any_of(others->second.begin(), others->second.end(), [&](int other) { return nodes.contains(other); });
}

Proofs::Among Proofs::In(std::set<int> nodes) const {
  Among among{std::move(nodes), {}};
  for (const std::vector<const Call*>& group : groups_) {
    const bool all =
        std::all_of(group.begin(), group.end(), [&](const Call* call) { return Leads(*call, among.nodes); });
    among.elsewhere.push_back(all ? 0 : 1);
  }
  return among;
}

// It leads to one of the others. A standard send may lie in a buffer: then what is awaited with it by the same call is
// what holds, where that leads elsewhere.
bool Proofs::MayHold(const Wait& wait, const Among& others) const {
  if (!others.nodes.contains(wait.other)) return false;
  const auto groups = IsStandardSend(wait.call) ? groups_of_.find(wait.call) : groups_of_.end();
  return groups == groups_of_.end() || std::none_of(groups->second.begin(), groups->second.end(),
                                                    [&](std::size_t group) { return others.elsewhere[group] != 0; });
}

// If none of the others ever goes on, the waiter does not either.
bool Proofs::Binds(const Wait& wait, const Among& others) const { return Proven(view_, wait) && MayHold(wait, others); }

// One wait of it leads to such as never go on either; of several that may free it, each.
bool Proofs::NeverGoesOn(int node, const Among& others) const {
  std::map<int, bool> closed;  // by choice
  for (const int index : graph_.out[node]) {
    const Wait& wait = graph_.waits[index];
    const bool leads = Binds(wait, others);
    if (wait.choice < 0 && leads) return true;
    if (wait.choice >= 0) closed[wait.choice] = leads && closed.try_emplace(wait.choice, true).first->second;
  }
  return std::any_of(closed.begin(), closed.end(), [](const auto& choice) { return choice.second; });
}

Proofs::Among Proofs::Shrunk(const std::function<bool(int, const Among&)>& stays) const {
  Among left = In({nodes_.begin(), nodes_.end()});
  while (std::erase_if(left.nodes, [&](int node) { return !stays(node, left); }) > 0) left = In(std::move(left.nodes));
  return left;
}

std::vector<const Wait*> Proofs::Cycle(Rule counts) const {
  const Among left = Shrunk([&](int node, const Among& others) {
    return std::any_of(graph_.out[node].begin(), graph_.out[node].end(),
                       [&](int index) { return (this->*counts)(graph_.waits[index], others); });
  });
  return graph_.CycleAmong({left.nodes.begin(), left.nodes.end()},
                           [&](const Wait& wait) { return (this->*counts)(wait, left); });
}

std::vector<const Wait*> Proofs::Cycle() const {
  const std::vector<const Wait*> proven = Cycle(&Proofs::Binds);
  return proven.empty() ? Cycle(&Proofs::MayHold) : proven;
}

bool Proofs::IsClosed(const std::vector<const Wait*>& cycle) const {
  const Among stuck = Shrunk([&](int node, const Among& others) { return NeverGoesOn(node, others); });
  return std::all_of(cycle.begin(), cycle.end(),
                     [&](const Wait* wait) { return stuck.nodes.contains(wait->waiter) && Binds(*wait, stuck); });
}

}  // namespace ncclwatch::diagnosis
