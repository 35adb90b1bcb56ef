#include "core/view/ranks.h"

#include <algorithm>
#include <set>

#include "core/reader/layout.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

bool SeveralPerProcess(const View& view) {
  for (const CommView& comm : view.comms) {
    std::set<int> processes;
    for (const Member& member : comm.members) {
      if (!processes.insert(member.process).second) return true;
    }
  }
  return false;
}

// Two processes that claim one rank: the launcher's word cannot be used to tell ranks apart.
bool LauncherRanksUsable(const View& view) {
  std::set<int> ranks;
  for (const Process& process : view.processes) {
    if (process.box->rank >= 0 && !ranks.insert(process.box->rank).second) return false;
  }
  return true;
}

const CommView* LargestRoot(const View& view) {
  for (const CommView& comm : view.comms) {
    if (comm.parent == 0 && comm.comparable && comm.size > 0) return &comm;
  }
  return nullptr;
}

int NodeFor(View* view, int process, int rank) {
  const auto known = view->node_of_rank.find(rank);
  if (known != view->node_of_rank.end()) {
    return view->nodes[known->second].process == process ? known->second : -1;
  }
  const int index = static_cast<int>(view->nodes.size());
  Node node;
  node.process = process;
  node.rank = rank;
  view->nodes.push_back(std::move(node));
  view->node_of_rank[rank] = index;
  view->processes[process].nodes.push_back(index);
  return index;
}

// Where the launcher named ranks, a process that it did not name is beside the job, as a rank's child with
// communicators of its own is; unless it is in the communicator of the whole job.
bool NumbersTheRest(const View& view, const CommView* root, int launched) {
  if (root != nullptr && static_cast<int>(root->size) == launched) return true;
  return std::none_of(view.processes.begin(), view.processes.end(),
                      [](const Process& process) { return process.box->rank >= 0; });
}

int RootRankOf(const CommView* root, int process) {
  if (root == nullptr) return -1;
  for (const Member& member : root->members) {
    if (member.process == process && member.rank_known()) return static_cast<int>(member.comm->rank);
  }
  return -1;
}

void OneNodePerProcess(View* view, const CommView* root, int launched) {
  const bool launcher = LauncherRanksUsable(*view);
  if (launcher && !NumbersTheRest(*view, root, launched)) root = nullptr;
  for (std::size_t i = 0; i < view->processes.size(); ++i) {
    const int process = static_cast<int>(i);
    int rank = launcher ? view->processes[i].box->rank : -1;
    if (rank < 0) rank = RootRankOf(root, process);
    if (rank < 0 || rank >= static_cast<int>(reader::kMaxCommunicatorSize)) continue;
    NodeFor(view, process, rank);
  }
  for (CommView& comm : view->comms) {
    for (Member& member : comm.members) {
      const std::vector<int>& nodes = view->processes[member.process].nodes;
      if (!nodes.empty()) member.node = nodes.front();
    }
  }
}

// The member of `root` in the same process on the same device, if there is just one.
int NodeByDevice(const CommView& root, const Member& member) {
  int node = -1;
  for (const Member& other : root.members) {
    if (other.process != member.process || other.comm->device != member.comm->device) continue;
    if (node >= 0) return -1;
    node = other.node;
  }
  return node;
}

// Members in the order in which the process made them, where it has as many in `comm` as in `root`.
void NodesByOrder(const CommView& root, CommView* comm, int process) {
  std::vector<int> nodes;
  std::vector<Member*> members;
  for (const Member& member : root.members) {
    if (member.process == process) nodes.push_back(member.node);
  }
  for (Member& member : comm->members) {
    if (member.process == process) members.push_back(&member);
  }
  if (nodes.size() != members.size()) return;
  std::sort(members.begin(), members.end(),
            [](const Member* a, const Member* b) { return a->comm->index < b->comm->index; });
  for (std::size_t i = 0; i < nodes.size(); ++i) members[i]->node = nodes[i];
}

void NodePerRootRank(View* view, CommView* root) {
  for (Member& member : root->members) {
    if (member.rank_known()) member.node = NodeFor(view, member.process, static_cast<int>(member.comm->rank));
  }
  for (CommView& comm : view->comms) {
    if (&comm == root) continue;
    std::set<int> undecided;
    for (Member& member : comm.members) {
      const std::vector<int>& nodes = view->processes[member.process].nodes;
      member.node = nodes.size() == 1 ? nodes.front() : NodeByDevice(*root, member);
      if (member.node < 0 && nodes.size() > 1) undecided.insert(member.process);
    }
    for (const int process : undecided) NodesByOrder(*root, &comm, process);
  }
}

void SortNodes(View* view) {
  std::vector<int> order(view->nodes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return view->nodes[a].rank < view->nodes[b].rank; });
  std::vector<int> place(order.size());
  std::vector<Node> sorted;
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int>(i);
    sorted.push_back(std::move(view->nodes[order[i]]));
  }
  view->nodes = std::move(sorted);
  for (auto& [rank, node] : view->node_of_rank) node = place[node];
  for (Process& process : view->processes) {
    for (int& node : process.nodes) node = place[node];
    std::sort(process.nodes.begin(), process.nodes.end());
  }
  for (CommView& comm : view->comms) {
    for (Member& member : comm.members) {
      if (member.node >= 0) member.node = place[member.node];
    }
  }
}

// A member that no box shows: its job rank follows where the communicator is the whole job in order, or is told.
void MapRanks(View* view, CommView* comm) {
  if (comm->size == 0 || comm->size > reader::kMaxCommunicatorSize) return;
  comm->job_ranks.assign(comm->size, -1);
  bool whole_job = comm->parent == 0 && static_cast<int>(comm->size) >= view->expected;
  for (const Member& member : comm->members) {
    if (member.node < 0 || !member.rank_known() || member.comm->rank >= comm->size) continue;
    comm->job_ranks[member.comm->rank] = view->nodes[member.node].rank;
    if (view->nodes[member.node].rank != static_cast<int>(member.comm->rank)) whole_job = false;
  }
  if (whole_job) {
    for (std::uint32_t rank = 0; rank < comm->size; ++rank) comm->job_ranks[rank] = static_cast<int>(rank);
    return;
  }
  for (const Member& member : comm->members) {
    if (member.comm->members == nullptr || member.comm->members->size() != comm->size) continue;
    comm->job_ranks.assign(member.comm->members->begin(), member.comm->members->end());
    return;
  }
}

void FileMemberships(View* view) {
  for (std::size_t c = 0; c < view->comms.size(); ++c) {
    std::vector<Member>& members = view->comms[c].members;
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (members[m].node < 0) continue;
      view->nodes[members[m].node].memberships.push_back({static_cast<int>(c), static_cast<int>(m)});
    }
  }
}

// Monitors ask NCCL all the time. Of MPI only that question is recorded in which it ends the process.
bool TellsOfProgress(const Call& call) {
  const functions::FunctionInfo* info = functions::Find(call.function);
  return info != nullptr && (info->family != functions::Family::kQuery || functions::IsMpi(call.function));
}

void NoteActivity(const Call& call, std::int64_t shift_ns, Node* node) {
  node->active_ns =
      std::max({node->active_ns, call.entered_ns + shift_ns, call.returned_ns == 0 ? 0 : call.returned_ns + shift_ns});
  if (node->last == nullptr || call.slot > node->last->slot) node->last = &call;
}

void FileActivity(View* view) {
  for (const Process& process : view->processes) {
    if (process.nodes.empty()) continue;
    if (process.nodes.size() == 1) {
      for (const Call& call : process.box->calls) {
        if (TellsOfProgress(call)) NoteActivity(call, process.shift_ns, &view->nodes[process.nodes.front()]);
      }
      continue;
    }
    std::unordered_map<std::uint64_t, int> node_of;
    for (const int node : process.nodes) {
      for (const auto& at : view->nodes[node].memberships) {
        const reader::Communicator& comm = *view->member(at).comm;
        node_of[std::uint64_t{comm.generation} << 32 | comm.index] = node;
      }
    }
    for (const Call& call : process.box->calls) {
      const auto found = node_of.find(std::uint64_t{call.generation} << 32 | call.communicator);
      if (found != node_of.end() && TellsOfProgress(call)) {
        NoteActivity(call, process.shift_ns, &view->nodes[found->second]);
      }
    }
  }
  for (Node& node : view->nodes) {  // where the ring has wrapped past everything
    for (const auto& at : node.memberships) {
      const Member& member = view->member(at);
      if (member.comm->entered == 0) continue;
      node.active_ns = std::max(node.active_ns, view->process(node).At(member.comm->last.entered_ns));
    }
  }
}

}  // namespace

void AssignRanks(View* view) {
  const bool several = SeveralPerProcess(*view);
  const CommView* root = LargestRoot(*view);
  int launched = 0;
  for (const Process& process : view->processes) launched = std::max(launched, process.box->world_size);
  if (launched > static_cast<int>(reader::kMaxCommunicatorSize)) launched = 0;
  if (several && root != nullptr) {
    NodePerRootRank(view, const_cast<CommView*>(root));
    view->expected = static_cast<int>(root->size);
  } else {
    OneNodePerProcess(view, root, launched);
    view->expected = launched > 0 ? launched : root != nullptr ? static_cast<int>(root->size) : 0;
  }
  SortNodes(view);
  FileMemberships(view);
  for (CommView& comm : view->comms) MapRanks(view, &comm);
  FileActivity(view);
}

}  // namespace ncclwatch::diagnosis
