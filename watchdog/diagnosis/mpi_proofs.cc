#include "watchdog/diagnosis/mpi_proofs.h"

#include <algorithm>
#include <map>
#include <set>

#include "watchdog/diagnosis/waits_mpi.h"
#include "watchdog/diagnosis/waits_windows.h"

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
  if (!wait.proven || process.fate.held() || !OneThread(process)) return false;
  if (wait.what == WaitFor::kEpoch) return EndsOnlyByIt(view, wait);
  if (wait.what == WaitFor::kCollective && !NeedsData(view, wait))
    return wait.call != nullptr && EndsEpochs(*wait.call) && view.now_ns - wait.since_ns >= kHeldNs;
  if (wait.call == nullptr || !IsSend(*wait.call) || (wait.call->flags & format::kSynchronous) != 0) return true;
  return wait.call->bytes > kAlwaysBuffered && view.now_ns - wait.since_ns >= kHeldNs;
}

// What is awaited with it by one call, the other half of an exchange among them.
bool AreAwaitedTogether(const Call& a, const Call& b) {
  if (a.awaited && b.awaited && a.waiter == b.waiter) return true;
  return a.group != 0 && a.group == b.group && functions::IsMessage(a.function) && functions::IsMessage(b.function);
}

}  // namespace

bool MayHold(const View& view, const WaitGraph& graph, const Wait& wait, const std::set<int>& others) {
  if (wait.call == nullptr || !IsSend(*wait.call) || (wait.call->flags & format::kSynchronous) != 0) return true;
  const std::vector<Call>& calls = view.process(view.nodes[wait.waiter]).box->calls;
  return std::all_of(calls.begin(), calls.end(), [&](const Call& call) {
    if (&call == wait.call || !call.Holds() || !AreAwaitedTogether(call, *wait.call)) return true;
    return std::any_of(graph.out[wait.waiter].begin(), graph.out[wait.waiter].end(), [&](int index) {
      return graph.waits[index].call == &call && others.contains(graph.waits[index].other);
    });
  });
}

bool Binds(const View& view, const WaitGraph& graph, const Wait& wait, const std::set<int>& others) {
  return others.contains(wait.other) && Proven(view, wait) && MayHold(view, graph, wait, others);
}

namespace {

// One wait of it leads to such as never go on either; of several that may free it, each.
bool NeverGoesOn(const View& view, const WaitGraph& graph, int node, const std::set<int>& others) {
  std::map<int, bool> closed;  // by choice
  for (const int index : graph.out[node]) {
    const Wait& wait = graph.waits[index];
    const bool leads = Binds(view, graph, wait, others);
    if (wait.choice < 0 && leads) return true;
    if (wait.choice >= 0) closed[wait.choice] = leads && closed.try_emplace(wait.choice, true).first->second;
  }
  return std::any_of(closed.begin(), closed.end(), [](const auto& choice) { return choice.second; });
}

}  // namespace

std::vector<int> ProvenAmong(const View& view, const WaitGraph& graph, const std::vector<int>& nodes) {
  std::set<int> left(nodes.begin(), nodes.end());
  const auto waits = [&](int node) {
    return std::any_of(graph.out[node].begin(), graph.out[node].end(),
                       [&](int index) { return Binds(view, graph, graph.waits[index], left); });
  };
  while (std::erase_if(left, [&](int node) { return !waits(node); }) > 0) continue;
  return {left.begin(), left.end()};
}

bool IsClosed(const View& view, const WaitGraph& graph, const std::vector<const Wait*>& cycle,
              const std::vector<int>& deadlocked) {
  std::set<int> stuck(deadlocked.begin(), deadlocked.end());
  while (std::erase_if(stuck, [&](int node) { return !NeverGoesOn(view, graph, node, stuck); }) > 0) continue;
  return std::all_of(cycle.begin(), cycle.end(), [&](const Wait* wait) {
    return stuck.contains(wait->waiter) && Binds(view, graph, *wait, stuck);
  });
}

}  // namespace ncclwatch::diagnosis
