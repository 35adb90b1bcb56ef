#include "core/waits/windows.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/mpi/epochs.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using format::AccessEpoch;
using functions::Function;
using reader::Call;

class Waiting {
 public:
  Waiting(const View& view, int comm_index, WaitGraph* graph)
      : view_(view),
        comm_index_(comm_index),
        comm_(view.comms[comm_index]),
        epochs_(EpochsOf(view, comm_)),
        graph_(*graph) {}

  void Add() {
    for (std::size_t m = 0; m < comm_.members.size(); ++m) {
      const Member& member = comm_.members[m];
      const Call* call = epochs_[m].open();
      if (call == nullptr || member.node < 0 || view_.process(member).outcome.gone()) continue;
      if (IsOfLocks(call->function))
        ForHolders(static_cast<int>(m), *call);
      else
        ForPartners(static_cast<int>(m), *call);
    }
  }

 private:
  const Epochs* Of(const Member* other) const {
    if (other == nullptr) return nullptr;
    const Epochs& epochs = epochs_[static_cast<std::size_t>(other - comm_.members.data())];
    return epochs.known() ? &epochs : nullptr;
  }

  void ForPartners(int m, const Call& call) {
    const Epochs& own = epochs_[m];
    const std::uint32_t rank = comm_.members[m].comm->rank;
    const bool exposed = call.function == Function::MPI_Win_wait;
    for (const std::uint32_t partner : exposed ? own.posted() : own.started()) {
      const Member* other = comm_.OfRank(partner);
      const Epochs* theirs = Of(other);
      if (theirs == nullptr) continue;
      const bool came =
          exposed ? theirs->CompletesOf(rank) >= own.PostsOf(partner) : theirs->PostsOf(rank) >= own.StartsOf(partner);
      if (!came) AddWait(m, call, *other);
    }
  }

  void ForHolders(int m, const Call& call) {
    const AccessEpoch wanted = epochs_[m].wanted();
    for (const Member& other : comm_.members) {
      const Epochs* theirs = Of(&other);
      if (&other == &comm_.members[m] || theirs == nullptr) continue;
      if (call.root >= 0 ? Excludes(theirs->LockAt(call.root), wanted) : theirs->HasExclusiveLock())
        AddWait(m, call, other);
    }
  }

  static bool Excludes(AccessEpoch held, AccessEpoch wanted) {
    return held == AccessEpoch::kExclusive || (held == AccessEpoch::kShared && wanted == AccessEpoch::kExclusive);
  }

  void AddWait(int m, const Call& call, const Member& other) {
    Wait wait = WaitBetween(view_, comm_index_, m, other);
    wait.what = WaitFor::kEpoch;
    wait.call = &call;
    wait.proven = true;
    wait.since_ns = view_.process(comm_.members[m]).At(call.entered_ns);
    graph_.waits.push_back(wait);
  }

  const View& view_;
  const int comm_index_;
  const CommView& comm_;
  const std::vector<Epochs> epochs_;
  WaitGraph& graph_;
};

// Windows on which somebody is in such a call, by process and index: of the others nothing has to be read.
std::set<std::pair<int, std::uint32_t>> WaitedOn(const View& view) {
  std::set<std::pair<int, std::uint32_t>> windows;
  for (std::size_t i = 0; i < view.processes.size(); ++i)
    for (const Call& call : view.processes[i].box->calls)
      if (call.returned_ns == 0 && MayWaitForOthers(call.function))
        windows.insert({static_cast<int>(i), call.communicator});
  return windows;
}

}  // namespace

void AddEpochs(const View& view, WaitGraph* graph) {
  if (std::none_of(view.comms.begin(), view.comms.end(), IsWindow)) return;
  const std::set<std::pair<int, std::uint32_t>> waited_on = WaitedOn(view);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    const bool waits =
        comm.comparable && std::any_of(comm.members.begin(), comm.members.end(), [&](const Member& member) {
          return waited_on.contains({member.process, member.comm->index});
        });
    if (waits && IsWindow(comm)) Waiting(view, static_cast<int>(c), graph).Add();
  }
}

bool IsOfLocks(Function function) {
  return function != Function::MPI_Win_start && function != Function::MPI_Win_complete &&
         function != Function::MPI_Win_wait;
}

bool AlwaysWaits(Function function) { return function == Function::MPI_Win_wait; }

std::string EpochCallAwaited(const Wait& wait) {
  if (IsOfLocks(wait.call->function)) return "Win_unlock";
  return wait.call->function == Function::MPI_Win_wait ? "Win_complete" : "Win_post";
}

}  // namespace ncclwatch::diagnosis
