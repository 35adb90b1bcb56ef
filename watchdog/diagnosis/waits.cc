#include "watchdog/diagnosis/waits.h"

#include <algorithm>
#include <set>

#include "watchdog/diagnosis/waits_messages.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

bool Outstanding(const Member& member, const Call& call) {
  return (call.flags & format::kMarked) != 0 && !member.comm->Finished(call.ticket);
}

// Whoever has said goodbye to a communicator (destroyed, aborted, revoked) waits for nobody in it.
bool MayWait(const View& view, const Member& member) {
  return member.node >= 0 && !view.process(member).fate.gone() && member.alive_in();
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
    wait.proven = wait.call->returned_ns == 0 || Outstanding(member, *wait.call);
  } else if (position + 1 == member.comm->entered) {
    wait.since_ns = process.At(member.comm->last.entered_ns);
    wait.proven = position >= member.comm->returned;
  }
  return wait;
}

// The first position at which the member waits for a member that has entered `entered` collectives and, if it is gone,
// is known to have finished `finished` of them; kNone if it does not.
constexpr std::uint64_t kNone = UINT64_MAX;

struct Standing {
  std::uint64_t entered = 0;
  std::uint64_t unfinished = 0;  // first collective not known to have finished
  bool known = false;            // that it has not: its mark is outstanding
  bool gone = false;
  bool held = false;  // does not run, and so moves nothing to other nodes
  bool left = false;  // destroyed, aborted or revoked it
};

Standing StandingOf(const View& view, const Member& member) {
  Standing standing;
  const Process& process = view.process(member);
  standing.entered = member.entered;
  standing.unfinished = view.Unfinished(member);
  const Call* call = member.At(standing.unfinished);
  standing.known = call != nullptr && Outstanding(member, *call);
  standing.gone = process.fate.gone();
  standing.held = process.fate.held();
  standing.left = !member.alive_in() && member.comm->state != format::CommunicatorState::kInitializing;
  return standing;
}

std::uint64_t WaitsAt(const Standing& waiter, const Standing& other) {
  if (other.left && other.entered >= waiter.entered) return kNone;
  // What a dead process had entered and not finished died with it.
  const std::uint64_t done = other.gone ? std::min(other.entered, other.unfinished) : other.entered;
  const std::uint64_t position = std::max(waiter.unfinished, done);
  const bool may_have_finished = !waiter.known && other.entered < waiter.entered;
  if (other.gone && done < other.entered && !may_have_finished) return position < waiter.entered ? position : kNone;
  // All are in it, and one of them does not run.
  if (other.held && waiter.known && waiter.unfinished < other.entered && other.unfinished <= waiter.unfinished)
    return waiter.unfinished;
  return waiter.unfinished <= other.entered && other.entered < waiter.entered ? other.entered : kNone;
}

void AddCollectives(const View& view, int comm_index, std::uint64_t explained_from, WaitGraph* graph) {
  const CommView& comm = view.comms[comm_index];
  std::vector<Standing> standings;
  for (const Member& member : comm.members) standings.push_back(StandingOf(view, member));
  // Waits for the hindmost only: whoever is ahead of it waits for it too, so the rest follows, and a communicator of
  // 1,024 ranks costs 1,024 edges for each rank that is behind rather than a million.
  std::uint64_t hindmost = kNone;
  for (const Standing& standing : standings) hindmost = std::min(hindmost, standing.entered);
  std::vector<int> others;
  for (std::size_t o = 0; o < comm.members.size(); ++o) {
    const Standing& standing = standings[o];
    if (standing.entered == hindmost || standing.gone || standing.held) others.push_back(static_cast<int>(o));
  }
  for (std::size_t m = 0; m < comm.members.size(); ++m) {
    const Member& member = comm.members[m];
    if (!MayWait(view, member)) continue;
    if (member.entered > explained_from) graph->blocked[member.node] = true;
    for (const int o : others) {
      const Member& other = comm.members[o];
      if (other.node == member.node) continue;
      const std::uint64_t position = WaitsAt(standings[m], standings[o]);
      if (position == kNone || position >= explained_from) continue;
      Wait wait = InCollective(view, comm, comm_index, static_cast<int>(m), position);
      wait.other = other.node;
      wait.other_comm_rank = other.comm->rank;
      wait.other_rank = other.node >= 0 ? view.nodes[other.node].rank : -1;
      graph->waits.push_back(wait);
    }
  }
}

void AddJoins(const View& view, int comm_index, WaitGraph* graph) {
  const CommView& comm = view.comms[comm_index];
  std::vector<Absentee> absentees = Absentees(view, comm);
  constexpr std::size_t kEnough = 64;  // one of many absentees binds as well as all of them
  if (absentees.size() > kEnough) absentees.resize(kEnough);
  for (std::size_t m = 0; m < comm.members.size(); ++m) {
    const Member& member = comm.members[m];
    if (member.node < 0 || view.process(member).fate.gone()) continue;
    if (member.comm->state != format::CommunicatorState::kInitializing) continue;
    for (const Absentee& absentee : absentees) {
      Wait wait;
      wait.waiter = member.node;
      wait.comm = comm_index;
      wait.member = static_cast<int>(m);
      wait.what = WaitFor::kJoin;
      wait.other_comm_rank = absentee.comm_rank;
      wait.other_rank = absentee.rank;
      wait.other = absentee.node;
      wait.since_ns = view.process(member).At(member.comm->created_ns);
      wait.proven = true;
      if (wait.other != wait.waiter) graph->waits.push_back(wait);
    }
  }
}

const CommView* CommOf(const View& view, std::uint64_t id) {
  for (const CommView& comm : view.comms) {
    if (comm.id == id) return &comm;
  }
  return nullptr;
}

// Only ncclCommSplit needs every rank of the parent: a shrink is made without those that are left out.
bool MadeBySplit(const View& view, const CommView& comm) {
  for (const Member& member : comm.members) {
    if (member.comm->state != format::CommunicatorState::kInitializing) continue;
    const std::vector<Call>& calls = view.process(member).box->calls;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      if (call->function == functions::Function::ncclCommSplit && call->position == member.comm->parent_ordinal) {
        return true;
      }
    }
  }
  return false;
}

std::vector<Absentee> AbsentFromSplit(const View& view, const CommView& comm) {
  std::vector<Absentee> absentees;
  const CommView* parent = CommOf(view, comm.parent);
  if (parent == nullptr || !MadeBySplit(view, comm)) return absentees;
  const std::uint64_t ordinal = comm.members.front().comm->parent_ordinal;
  for (const Member& member : parent->members) {
    if (member.comm->creations > ordinal || !member.alive_in()) continue;
    absentees.push_back({member.comm->rank, member.node >= 0 ? view.nodes[member.node].rank : -1, member.node});
  }
  return absentees;
}

std::vector<Absentee> AbsentFromRoot(const View& view, const CommView& comm) {
  std::vector<Absentee> absentees;
  if (comm.sizes_differ) return absentees;
  for (std::uint32_t rank = 0; rank < comm.size; ++rank) {
    if (comm.OfRank(rank) != nullptr) continue;
    Absentee absentee{rank, view.JobRank(comm, rank), -1};
    const auto node = view.node_of_rank.find(absentee.rank);
    if (absentee.rank >= 0 && node != view.node_of_rank.end()) absentee.node = node->second;
    absentees.push_back(absentee);
  }
  return absentees;
}

}  // namespace

std::vector<Absentee> Absentees(const View& view, const CommView& comm) {
  std::vector<Absentee> absentees;
  const bool initializing = std::any_of(comm.members.begin(), comm.members.end(), [](const Member& member) {
    return member.comm->state == format::CommunicatorState::kInitializing;
  });
  if (!initializing || !comm.comparable) return absentees;
  absentees = comm.parent != 0 ? AbsentFromSplit(view, comm) : AbsentFromRoot(view, comm);
  // It has joined, and does nothing to bring the communicator about.
  for (const Member& member : comm.members) {
    const bool inside = member.comm->state == format::CommunicatorState::kInitializing;
    if (inside && member.node >= 0 && view.process(member).fate.held())
      absentees.push_back({member.comm->rank, view.nodes[member.node].rank, member.node});
  }
  return absentees;
}

bool WaitGraph::Explains(int comm, std::uint64_t position) const {
  return std::any_of(explained.begin(), explained.end(),
                     [&](const Explained& part) { return part.comm == comm && position >= part.position; });
}

std::vector<int> WaitGraph::Upstream(int node) const {
  std::vector<char> seen(out.size(), 0);
  std::vector<int> found;
  std::vector<int> next = {node};
  seen[node] = 1;
  while (!next.empty()) {
    const int current = next.back();
    next.pop_back();
    for (const int index : in[current]) {
      const int waiter = waits[index].waiter;
      if (seen[waiter]) continue;
      seen[waiter] = 1;
      found.push_back(waiter);
      next.push_back(waiter);
    }
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
  while (!next.empty()) {
    const int current = next.back();
    next.pop_back();
    for (const int index : in[current]) reach(waits[index].waiter);
  }
  std::vector<int> cyclic;
  for (std::size_t node = 0; node < out.size(); ++node) {
    if (!ends[node]) cyclic.push_back(static_cast<int>(node));
  }
  return cyclic;
}

WaitGraph MakeWaits(const View& view, const std::vector<Explained>& explained) {
  WaitGraph graph;
  graph.explained = explained;
  graph.blocked.assign(view.nodes.size(), 0);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    if (!view.comms[c].comparable) continue;
    std::uint64_t from = kNone;
    for (const Explained& part : explained) {
      if (part.comm == static_cast<int>(c)) from = std::min(from, part.position);
    }
    AddCollectives(view, static_cast<int>(c), from, &graph);
    AddJoins(view, static_cast<int>(c), &graph);
  }
  AddMessages(view, &graph);
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
