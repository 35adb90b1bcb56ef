#include "core/waits/finalize.h"

#include <algorithm>

#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

bool IsWorld(const CommView& comm) {
  return SpeaksMpi(comm) && comm.comparable && comm.size > 1 && comm.members.front().comm->parent == 0;
}

bool IsInside(const View& view, const Member& member) {
  const reader::Call* last = view.nodes[member.node].last;
  return last != nullptr && last->function == functions::Function::MPI_Finalize && last->returned_ns == 0;
}

Wait InFinalize(const View& view, int comm_index, int member_index, const Member& other) {
  Wait wait = WaitBetween(view, comm_index, member_index, other);
  wait.what = WaitFor::kEnd;
  wait.call = view.nodes[wait.waiter].last;
  wait.proven = true;
  wait.since_ns = view.process(view.nodes[wait.waiter]).At(wait.call->entered_ns);
  return wait;
}

}  // namespace

void AddFinalize(const View& view, WaitGraph* graph) {
  if (!graph->waits.empty()) return;
  const auto world = std::find_if(view.comms.begin(), view.comms.end(), IsWorld);
  if (world == view.comms.end()) return;
  std::vector<int> inside;
  std::vector<const Member*> absent;
  for (std::size_t m = 0; m < world->members.size(); ++m) {
    const Member& member = world->members[m];
    if (member.node < 0 || view.process(member).outcome.gone()) continue;
    if (IsInside(view, member))
      inside.push_back(static_cast<int>(m));
    else if (!HasCalledFinalize(view.process(member)))
      absent.push_back(&member);
  }
  if (inside.empty() || absent.empty()) return;
  // All wait for all; as edges one of each side is enough, of those inside the one that came last.
  const int comm = static_cast<int>(world - view.comms.begin());
  std::vector<Wait> waits;
  for (const int m : inside) waits.push_back(InFinalize(view, comm, m, *absent.front()));
  const auto latest = std::max_element(waits.begin(), waits.end(),
                                       [](const Wait& a, const Wait& b) { return a.since_ns < b.since_ns; });
  const int last = latest->member;
  for (std::size_t a = 1; a < absent.size(); ++a) waits.push_back(InFinalize(view, comm, last, *absent[a]));
  graph->waits = std::move(waits);
}

}  // namespace ncclwatch::diagnosis
