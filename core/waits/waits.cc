#include "core/waits/waits.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/calls/creations.h"
#include "core/view/mpi_traits.h"
#include "core/waits/collectives.h"
#include "core/waits/finalize.h"
#include "core/waits/messages.h"
#include "core/waits/mpi.h"
#include "core/waits/windows.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// What the call was made on; null: its entry is another one's by now.
const reader::Communicator* EntryOf(const reader::BoxImage& box, const Call& call) {
  const auto found =
      std::find_if(box.communicators.begin(), box.communicators.end(), [&](const reader::Communicator& known) {
        return known.index == call.communicator && known.generation == call.generation;
      });
  return found == box.communicators.end() ? nullptr : &*found;
}

// The ordinal counts on the parent: calls on others have the same ones.
bool Makes(const View& view, const Member& member, const Call& call) {
  if (call.position != member.comm->parent_ordinal) return false;
  const reader::Communicator* parent = EntryOf(*view.process(member).box, call);
  return parent == nullptr || member.comm->parent == 0 || parent->id == member.comm->parent;
}

// MPI_Comm_idup, which makes it; null: a call that blocks does, or the ring has lost it.
const Call* IdupOf(const View& view, const Member& member) {
  const std::vector<Call>& calls = view.process(member).box->calls;
  const auto idup = std::find_if(calls.rbegin(), calls.rend(), [&](const Call& call) {
    return (call.flags & format::kRequest) != 0 && HasOrdinal(call) && Makes(view, member, call);
  });
  return idup == calls.rend() ? nullptr : &*idup;
}

void AddJoins(const View& view, int comm_index, WaitGraph* graph) {
  const CommView& comm = view.comms[comm_index];
  std::vector<MissingRank> absentees = Absentees(view, comm);
  constexpr std::size_t kEnoughAbsentees = 64;  // one of many absentees binds as well as all of them
  if (absentees.size() > kEnoughAbsentees) absentees.resize(kEnoughAbsentees);
  for (std::size_t m = 0; m < comm.members.size(); ++m) {
    const Member& member = comm.members[m];
    if (member.node < 0 || view.process(member).outcome.gone() || !IsJoining(view, member)) continue;
    const Call* idup = IdupOf(view, member);
    if (idup != nullptr && idup->wait_any) continue;  // MPI_Waitany: something else may come first
    for (const MissingRank& absentee : absentees) {
      Wait wait;
      wait.waiter = member.node;
      wait.comm = comm_index;
      wait.member = static_cast<int>(m);
      wait.what = WaitFor::kJoin;
      wait.other_comm_rank = absentee.comm_rank;
      wait.other_rank = absentee.rank;
      wait.other = absentee.node;
      wait.since_ns = view.process(member).At(member.comm->created_ns);
      wait.proven = idup == nullptr || !idup->polled;
      if (wait.other != wait.waiter) graph->waits.push_back(wait);
    }
  }
}

// NCCL: only ncclCommSplit needs every rank of the parent; a shrink is made without those that are left out. MPI: all
// but MPI_Comm_create_group do, whose ordinal does not count on the parent: one that is over has the same perhaps.
bool NeedsWholeParent(const Call& call) {
  if (!functions::IsMpi(call.function)) return call.function == functions::Function::ncclCommSplit;
  const bool begun = (call.flags & format::kRequest) != 0 && call.completed_ns == 0;
  if (call.returned_ns != 0 && !begun) return false;
  const functions::FunctionInfo* info = functions::Find(call.function);
  return MakesWindowOrFile(call.function) || (info != nullptr && info->family == functions::Family::kCreation &&
                                              call.function != functions::Function::MPI_Comm_create_group);
}

}  // namespace

Wait WaitBetween(const View& view, int comm_index, int member_index, const Member& other) {
  Wait wait;
  wait.waiter = view.comms[comm_index].members[member_index].node;
  wait.other = other.node;
  wait.other_rank = other.node >= 0 ? view.nodes[other.node].rank : -1;
  wait.other_comm_rank = other.comm->rank;
  wait.comm = comm_index;
  wait.member = member_index;
  return wait;
}

bool IsJoining(const View& view, const Member& member) {
  if (member.comm->state != format::CommunicatorState::kInitializing) return false;
  const Call* idup = IdupOf(view, member);
  return idup == nullptr || idup->BlocksCaller();
}

bool MadeFromAll(const View& view, const CommView& comm) {
  for (const Member& member : comm.members) {
    if (member.comm->state != format::CommunicatorState::kInitializing) continue;
    const std::vector<Call>& calls = view.process(member).box->calls;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      if (NeedsWholeParent(*call) && Makes(view, member, *call)) return true;
    }
  }
  return false;
}

namespace {

// Then it makes nothing of it any more. Who is about to be left out of it when it is made has not joined it either.
bool HasFreed(const CommView& comm, const Member& member) {
  return SpeaksMpi(comm) && member.comm->state != format::CommunicatorState::kInitializing;
}

std::vector<MissingRank> AbsentFromSplit(const View& view, const CommView& comm) {
  std::vector<MissingRank> absentees;
  const CommView* parent = view.CommOf(comm.parent);
  if (parent == nullptr || !MadeFromAll(view, comm)) return absentees;
  const std::uint64_t ordinal = comm.members.front().comm->parent_ordinal;
  for (const Member& member : parent->members) {
    if (member.comm->creations > ordinal || !(member.alive_in() || HasFreed(comm, member))) continue;
    absentees.push_back({member.comm->rank, member.node >= 0 ? view.nodes[member.node].rank : -1, member.node});
  }
  return absentees;
}

// What the members say who are inside MPI_Comm_create_group: whom it needs, as ranks of the parent. Null: they do not
// say.
const reader::CallParts* GroupOf(const View& view, const CommView& comm) {
  for (const Member& member : comm.members) {
    if (member.comm->state != format::CommunicatorState::kInitializing) continue;
    const reader::BoxImage& box = *view.process(member).box;
    for (const reader::CallParts& parts : box.parts) {
      if (parts.call.function != functions::Function::MPI_Comm_create_group || parts.call.returned_ns != 0) continue;
      const reader::Communicator* parent = EntryOf(box, parts.call);
      if (parent != nullptr && parent->id == comm.parent && parts.receives.size() == comm.size) return &parts;
    }
  }
  return nullptr;
}

std::vector<MissingRank> AbsentFromGroup(const View& view, const CommView& comm, const reader::CallParts& group) {
  std::vector<MissingRank> absentees;
  const CommView* parent = view.CommOf(comm.parent);
  if (parent == nullptr) return absentees;
  for (std::uint32_t rank = 0; rank < comm.size; ++rank) {
    if (comm.OfRank(rank) != nullptr) continue;
    const std::uint32_t in_parent = group.receives[rank].what;
    const Member* member = parent->OfRank(in_parent);
    const int node = member != nullptr ? member->node : -1;
    absentees.push_back({rank, node >= 0 ? view.nodes[node].rank : view.JobRank(*parent, in_parent), node});
  }
  return absentees;
}

std::vector<MissingRank> AbsentFromPart(const View& view, const CommView& comm) {
  if (const reader::CallParts* group = GroupOf(view, comm)) return AbsentFromGroup(view, comm, *group);
  return AbsentFromSplit(view, comm);
}

std::vector<MissingRank> AbsentFromRoot(const View& view, const CommView& comm) {
  std::vector<MissingRank> absentees;
  if (comm.sizes_differ) return absentees;
  for (std::uint32_t rank = 0; rank < comm.size; ++rank) {
    if (comm.OfRank(rank) != nullptr) continue;
    MissingRank absentee{rank, view.JobRank(comm, rank), -1};
    const auto node = view.node_of_rank.find(absentee.rank);
    if (absentee.rank >= 0 && node != view.node_of_rank.end()) absentee.node = node->second;
    absentees.push_back(absentee);
  }
  return absentees;
}

}  // namespace

std::vector<MissingRank> Absentees(const View& view, const CommView& comm) {
  std::vector<MissingRank> absentees;
  const bool initializing = std::any_of(comm.members.begin(), comm.members.end(),
                                        [&](const Member& member) { return IsJoining(view, member); });
  if (!initializing || !comm.comparable) return absentees;
  absentees = comm.parent != 0 ? AbsentFromPart(view, comm) : AbsentFromRoot(view, comm);
  // It has joined, and does nothing to bring the communicator about.
  for (const Member& member : comm.members) {
    if (IsJoining(view, member) && member.node >= 0 && view.process(member).outcome.held())
      absentees.push_back({member.comm->rank, view.nodes[member.node].rank, member.node});
  }
  return absentees;
}

bool IsInACall(const View& view, const Node& node) {
  const auto unfinished = [](const Member& member, const Call* call) {
    return call->returned_ns == 0 || member.Outstanding(*call);
  };
  return std::any_of(node.memberships.begin(), node.memberships.end(), [&](const std::pair<int, int>& at) {
    const Member& member = view.member(at);
    return std::any_of(member.calls.begin(), member.calls.end(),
                       [&](const Call* call) { return unfinished(member, call); }) ||
           std::any_of(member.messages.begin(), member.messages.end(),
                       [&](const Call* call) { return unfinished(member, call); });
  });
}

bool WaitGraph::Explains(int comm, std::uint64_t position) const {
  return std::any_of(explained.begin(), explained.end(),
                     [&](const Explained& part) { return part.comm == comm && position >= part.position; });
}

namespace {

// Each group wait is walked through once, when the first of those whom it waits for is reached.
class GroupWaitsBehind {
 public:
  explicit GroupWaitsBehind(const WaitGraph& graph) : graph_(graph), reported_(graph.group_waits.size()) {
    for (std::size_t c = 0; c < graph.group_waits.size(); ++c)
      for (const int node : graph.group_waits[c].others) of_node_[node].push_back(c);
  }
  template <typename Visit>
  void ForEachWaiter(int node, const Visit& visit) {
    const auto found = of_node_.find(node);
    if (found == of_node_.end()) return;
    for (const std::size_t c : found->second) {
      if (reported_[c]) continue;
      reported_[c] = true;
      for (const int waiter : graph_.group_waits[c].waiters) visit(waiter);
    }
  }

 private:
  const WaitGraph& graph_;
  std::vector<bool> reported_;
  std::unordered_map<int, std::vector<std::size_t>> of_node_;
};

}  // namespace

std::vector<int> WaitGraph::Upstream(const std::vector<int>& nodes) const {
  std::vector<char> seen(out.size(), 0);
  std::vector<int> found;
  std::vector<int> next = nodes;
  for (const int node : nodes) seen[node] = 1;
  const auto reach = [&](int waiter) {
    if (seen[waiter]) return;
    seen[waiter] = 1;
    found.push_back(waiter);
    next.push_back(waiter);
  };
  GroupWaitsBehind behind(*this);
  while (!next.empty()) {
    const int current = next.back();
    next.pop_back();
    for (const int index : in[current]) reach(waits[index].waiter);
    behind.ForEachWaiter(current, reach);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int> WaitGraph::Cyclic() const {
  std::vector<char> ends(out.size(), 0);  // a sink can be reached
  std::vector<int> next;
  const auto reach = [&](int node) {
    if (!ends[node]) next.push_back(node);
    ends[node] = 1;
  };
  for (std::size_t node = 0; node < out.size(); ++node) {
    if (out[node].empty()) reach(static_cast<int>(node));
    if (blocked[node]) reach(static_cast<int>(node));
    for (const int index : out[node]) {
      if (waits[index].other < 0) reach(static_cast<int>(node));  // somebody unseen
    }
  }
  GroupWaitsBehind behind(*this);
  while (!next.empty()) {
    const int current = next.back();
    next.pop_back();
    for (const int index : in[current]) reach(waits[index].waiter);
    behind.ForEachWaiter(current, reach);
  }
  std::vector<int> cyclic;
  for (std::size_t node = 0; node < out.size(); ++node) {
    if (!ends[node]) cyclic.push_back(static_cast<int>(node));
  }
  return cyclic;
}

std::vector<int> WaitGraph::Deadlocked() const {
  std::vector<char> goes_on(out.size(), 0);
  const auto can = [&](int node) {
    std::set<int> open, goes;  // choices
    for (const int index : out[node]) {
      const Wait& wait = waits[index];
      const bool other_does = wait.other < 0 || goes_on[wait.other];
      if (wait.choice < 0 && !other_does) return false;
      if (wait.choice >= 0) (other_does ? goes : open).insert(wait.choice);
    }
    return std::includes(goes.begin(), goes.end(), open.begin(), open.end());
  };
  std::vector<int> next;
  for (std::size_t node = 0; node < out.size(); ++node) next.push_back(static_cast<int>(node));
  while (!next.empty()) {
    const int node = next.back();
    next.pop_back();
    if (goes_on[node] || !(blocked[node] || can(node))) continue;
    goes_on[node] = 1;
    for (const int index : in[node]) next.push_back(waits[index].waiter);
  }
  std::vector<int> left;
  for (std::size_t node = 0; node < out.size(); ++node)
    if (!goes_on[node]) left.push_back(static_cast<int>(node));
  return left;
}

std::vector<const Wait*> WaitGraph::CycleAmong(const std::vector<int>& nodes,
                                               const std::function<bool(const Wait&)>& counts) const {
  const std::set<int> inside(nodes.begin(), nodes.end());
  std::vector<const Wait*> path;
  std::map<int, std::size_t> seen;
  int node = nodes.empty() ? -1 : nodes.front();
  while (node >= 0 && !seen.contains(node)) {
    seen[node] = path.size();
    const Wait* next = nullptr;
    for (const int index : out[node])
      if (next == nullptr && inside.contains(waits[index].other) && counts(waits[index])) next = &waits[index];
    if (next == nullptr) return {};
    path.push_back(next);
    node = next->other;
  }
  if (path.empty()) return {};
  return {path.begin() + static_cast<std::ptrdiff_t>(seen[node]), path.end()};
}

WaitGraph MakeWaits(const View& view, const std::vector<Explained>& explained) {
  WaitGraph graph;
  graph.explained = explained;
  graph.blocked.assign(view.nodes.size(), 0);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    if (!view.comms[c].comparable) continue;
    std::uint64_t from = UINT64_MAX;
    for (const Explained& part : explained) {
      if (part.comm == static_cast<int>(c)) from = std::min(from, part.position);
    }
    AddCollectives(view, static_cast<int>(c), from, &graph);
    AddJoins(view, static_cast<int>(c), &graph);
  }
  AddMessages(view, &graph);
  AddMessagesOfMpi(view, &graph);
  AddEpochs(view, &graph);
  AddFinalize(view, &graph);
  graph.out.resize(view.nodes.size());
  graph.in.resize(view.nodes.size());
  for (std::size_t i = 0; i < graph.waits.size(); ++i) {
    const Wait& wait = graph.waits[i];
    graph.out[wait.waiter].push_back(static_cast<int>(i));
    if (wait.other >= 0) graph.in[wait.other].push_back(static_cast<int>(i));
  }
  return graph;
}

}  // namespace ncclwatch::diagnosis
