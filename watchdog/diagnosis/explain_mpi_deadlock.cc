// deadlock of MPI's calls, and messages that pass by the receives that wait for them (point_to_point_mismatch). A rank
// in a blocking call makes no other call: where each of a circle waits for the next, none ever goes on. That needs no
// time to prove, but for sends that MPI may yet take into a buffer.
#include <algorithm>
#include <map>
#include <set>

#include "watchdog/diagnosis/explain.h"
#include "watchdog/diagnosis/text.h"
#include "watchdog/diagnosis/waits_mpi.h"
#include "watchdog/diagnosis/waits_windows.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

// A send that is to be buffered is so within microseconds, but its rank may have to wait for a processor. So it is with
// a fence that need not wait.
constexpr std::int64_t kHeldNs = 1'000'000'000;
// Every MPI takes as little as this into a buffer, if it has one left.
constexpr std::uint64_t kAlwaysBuffered = 1024;

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

bool NeedsData(const View& view, const Wait& wait) {
  if (wait.call == nullptr) return false;
  return NeedsData(*wait.call, view.comms[wait.comm].members[wait.member].comm->rank, wait.other_comm_rank);
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

bool Proven(const View& view, const Wait& wait) {
  const Process& process = view.process(view.nodes[wait.waiter]);
  if (!wait.proven || process.fate.held() || !OneThread(process)) return false;
  if (wait.what == WaitFor::kEpoch) return EndsOnlyByIt(view, wait);
  if (wait.what == WaitFor::kCollective && !NeedsData(view, wait))
    return wait.call != nullptr && EndsEpochs(*wait.call) && view.now_ns - wait.since_ns >= kHeldNs;
  if (wait.call == nullptr || !IsSend(*wait.call) || (wait.call->flags & format::kSynchronous) != 0) return true;
  return wait.call->bytes > kAlwaysBuffered && view.now_ns - wait.since_ns >= kHeldNs;
}

// Without NCCLWATCH_MPI_CHECKS=sync MPI might have taken the message into a buffer.
bool MadeSynchronous(const Wait* wait) {
  return wait->call != nullptr && (wait->call->flags & format::kMadeSynchronous) != 0;
}

// Those of them that wait for one another in ways that are proven; none: a cycle of such waits does not exist.
std::vector<int> ProvenAmong(const View& view, const WaitGraph& graph, const std::vector<int>& nodes) {
  std::set<int> left(nodes.begin(), nodes.end());
  const auto waits = [&](int node) {
    return std::any_of(graph.out[node].begin(), graph.out[node].end(), [&](int index) {
      return left.contains(graph.waits[index].other) && Proven(view, graph.waits[index]);
    });
  };
  while (std::erase_if(left, [&](int node) { return !waits(node); }) > 0) continue;
  return {left.begin(), left.end()};
}

// One wait of it leads to such as never go on either; of several that may free it, each.
bool NeverGoesOn(const View& view, const WaitGraph& graph, int node, const std::set<int>& others) {
  std::map<int, bool> closed;  // by choice
  for (const int index : graph.out[node]) {
    const Wait& wait = graph.waits[index];
    const bool leads = others.contains(wait.other) && Proven(view, wait);
    if (wait.choice < 0 && leads) return true;
    if (wait.choice >= 0) closed[wait.choice] = leads && closed.try_emplace(wait.choice, true).first->second;
  }
  return std::any_of(closed.begin(), closed.end(), [](const auto& choice) { return choice.second; });
}

// It is proven that none of the cycle ever goes on, whatever others do.
bool IsClosed(const View& view, const WaitGraph& graph, const std::vector<const Wait*>& cycle,
              const std::vector<int>& deadlocked) {
  std::set<int> stuck(deadlocked.begin(), deadlocked.end());
  while (std::erase_if(stuck, [&](int node) { return !NeverGoesOn(view, graph, node, stuck); }) > 0) continue;
  return std::all_of(cycle.begin(), cycle.end(),
                     [&](const Wait* wait) { return stuck.contains(wait->waiter) && Proven(view, *wait); });
}

// Those whom one of several might free, among all that the cycle waits for, directly or not.
std::vector<int> ChoosersBehind(const WaitGraph& graph, const std::vector<const Wait*>& cycle,
                                const std::set<int>& deadlocked) {
  std::vector<int> choosers;
  std::set<int> seen;
  std::vector<int> next;
  for (const Wait* wait : cycle)
    if (seen.insert(wait->waiter).second) next.push_back(wait->waiter);
  const auto needed = [&](const Wait& wait) {
    return wait.choice >= 0 || std::find(cycle.begin(), cycle.end(), &wait) != cycle.end();
  };
  while (!next.empty()) {
    const int node = next.back();
    next.pop_back();
    for (const int index : graph.out[node]) {
      const Wait& wait = graph.waits[index];
      if (!needed(wait)) continue;
      if (wait.choice >= 0 && deadlocked.contains(node)) choosers.push_back(node);
      if (wait.other >= 0 && seen.insert(wait.other).second) next.push_back(wait.other);
    }
  }
  return choosers;
}

// A message under way that nobody takes, between the two ends of one of the waits: it was meant for it.
struct PassedBy {
  const Member* sender = nullptr;
  const Member* receiver = nullptr;
  const CommView* sent_on = nullptr;
  const CommView* waited_on = nullptr;
  const Call* send = nullptr;
  const Call* receive = nullptr;
};

// A receive that is waited in, the node that it waits for, and where.
struct Awaited {
  const Call* receive = nullptr;
  int comm = -1;
  int from = -1, to = -1;  // nodes
};

const Member* InComm(const CommView& comm, int node) {
  const auto found =
      std::find_if(comm.members.begin(), comm.members.end(), [&](const Member& member) { return member.node == node; });
  return found == comm.members.end() ? nullptr : &*found;
}

// A message of the same content that differs in one thing: its tag, or its communicator. Others may well be received
// later.
bool WasMeantFor(const Call& send, const Call& receive, bool other_comm) {
  const bool any_tag = (receive.flags & format::kAnyTag) != 0;
  // Of a probe only its tag tells.
  if (functions::IsProbe(receive.function)) return other_comm && !any_tag && send.tag == receive.tag;
  if (send.signature == 0 || send.signature != receive.signature) return false;
  return other_comm ? any_tag || send.tag == receive.tag : !any_tag && send.tag != receive.tag;
}

std::optional<PassedBy> SentOn(const View& view, const Channels& channels, int comm, const Awaited& awaited) {
  const Member* sender = InComm(view.comms[comm], awaited.from);
  const Member* receiver = InComm(view.comms[comm], awaited.to);
  if (sender == nullptr || receiver == nullptr) return std::nullopt;
  const Channel* channel = channels.Of(comm, sender->comm->rank, receiver->comm->rank);
  if (channel == nullptr || !channel->known) return std::nullopt;
  for (const Call* send : channel->under_way)
    if (channels.Free(send) && WasMeantFor(*send, *awaited.receive, comm != awaited.comm))
      return PassedBy{sender, receiver, &view.comms[comm], &view.comms[awaited.comm], send, awaited.receive};
  return std::nullopt;
}

// On the communicator of the receive, else on the others that the two share.
std::optional<PassedBy> PassedByOf(const View& view, const Channels& channels, const Awaited& awaited) {
  if (auto found = SentOn(view, channels, awaited.comm, awaited)) return found;
  for (std::size_t c = 0; c < view.comms.size(); ++c)
    if (static_cast<int>(c) != awaited.comm)
      if (auto found = SentOn(view, channels, static_cast<int>(c), awaited)) return found;
  return std::nullopt;
}

// The receives in which `node` waits for the other one.
std::vector<Awaited> ReceivesFrom(const View& view, int node, int from) {
  std::vector<Awaited> receives;
  for (const auto& at : view.nodes[node].memberships) {
    const CommView& comm = view.comms[at.first];
    for (const Call* call : view.member(at).messages) {
      if (!IsReceive(*call) || !IsOpen(*call) || !call->Holds() || call->root < 0) continue;
      const Member* source = comm.OfRank(static_cast<std::uint32_t>(call->root));
      if (source != nullptr && source->node == from) receives.push_back({call, at.first, from, node});
    }
  }
  return receives;
}

// From all that it may come from.
std::vector<Awaited> ReceivesOf(const WaitGraph& graph, const Wait& wait) {
  std::vector<Awaited> receives{{wait.call, wait.comm, wait.other, wait.waiter}};
  for (const int index : graph.out[wait.waiter]) {
    const Wait& other = graph.waits[index];
    if (wait.choice >= 0 && other.choice == wait.choice && other.call == wait.call && other.other != wait.other)
      receives.push_back({other.call, other.comm, other.other, other.waiter});
  }
  return receives;
}

std::optional<PassedBy> FindPassedBy(const View& view, const Channels& channels, const WaitGraph& graph,
                                     const std::vector<const Wait*>& cycle) {
  for (const Wait* wait : cycle) {
    if (wait->what != WaitFor::kMessage || wait->call == nullptr) continue;
    // Of a send that is held, what its receiver waits for instead.
    const std::vector<Awaited> receives =
        IsSend(*wait->call) ? ReceivesFrom(view, wait->other, wait->waiter) : ReceivesOf(graph, *wait);
    for (const Awaited& awaited : receives)
      if (awaited.from >= 0)
        if (auto found = PassedByOf(view, channels, awaited)) return found;
  }
  return std::nullopt;
}

// Of a receive from anybody, or a probe, another message may be the one that is missing.
bool SaysWhose(const Call& receive) {
  return !functions::IsProbe(receive.function) && (receive.flags & format::kAnySource) == 0;
}

std::string MessageText(const CommView& comm, const Call& call) {
  std::string text = CallText(call);
  if ((call.flags & format::kAnyTag) == 0) text += " with tag " + std::to_string(call.tag);
  return text + " on " + CommText(comm);
}

void Fill(const View& view, const WaitGraph& graph, const std::vector<int>& nodes, std::int64_t began,
          Finding* finding) {
  AddCulprits(view, RanksOf(view, nodes), finding);
  AddVictims(view, graph, nodes, finding);
  finding->began_at_ns = ToRealtime(view, began);
}

Finding ExplainPassedBy(const View& view, const WaitGraph& graph, const PassedBy& passed, std::int64_t began) {
  Finding finding;
  finding.kind = Kind::kPointToPointMismatch;
  const int from = passed.sender->node, to = passed.receiver->node;
  Fill(view, graph, {std::min(from, to), std::max(from, to)}, began, &finding);
  const CommView& comm = *passed.sent_on;
  const CommView& waits_in = *passed.waited_on;
  finding.communicator = DescribeComm(waits_in);
  finding.position = passed.send->position;
  finding.calls = {DescribeCall(view, comm, *passed.sender, passed.send->position, passed.send),
                   DescribeCall(view, waits_in, *InComm(waits_in, to), 0, passed.receive)};
  const std::string sender = Ranks({view.nodes[from].rank}), receiver = Ranks({view.nodes[to].rank});
  const bool other_comm = comm.id != waits_in.id;
  finding.summary =
      Capital(receiver) + " waits for a message of " + sender + ", which has sent one that does not fit: " +
      (other_comm
           ? "it is on another communicator."
           : "tag " + std::to_string(passed.send->tag) + " instead of " + std::to_string(passed.receive->tag) + ".");
  finding.evidence = {sender + ": " + MessageText(comm, *passed.send) + "; nobody has received it",
                      receiver + ": " + MessageText(waits_in, *passed.receive)};
  finding.next_steps = {"compare tag, communicator and partner of the two calls named above"};
  return finding;
}

// Some make a communicator from the one on which others call a collective: at one place of one order, two operations.
struct TwoOperations {
  const CommView* comm = nullptr;  // the one that all call on
  std::vector<int> creating, calling;
};

std::optional<TwoOperations> FindTwoOperations(const View& view, const WaitGraph& graph,
                                               const std::vector<const Wait*>& cycle) {
  TwoOperations found;
  for (const Wait* wait : cycle) {
    if (wait->what != WaitFor::kCollective && wait->what != WaitFor::kJoin) return std::nullopt;
    const CommView& comm = view.comms[wait->comm];
    if (wait->what == WaitFor::kJoin && !MadeFromAll(view, comm)) return std::nullopt;
    const CommView* on = wait->what == WaitFor::kJoin ? view.CommOf(comm.parent) : &comm;
    if (on == nullptr || (found.comm != nullptr && found.comm != on)) return std::nullopt;
    found.comm = on;
  }
  for (const Wait& wait : graph.waits) {
    const CommView& comm = view.comms[wait.comm];
    if (wait.what == WaitFor::kJoin && view.CommOf(comm.parent) == found.comm && MadeFromAll(view, comm))
      found.creating.push_back(wait.waiter);
    if (wait.what == WaitFor::kCollective && &comm == found.comm) found.calling.push_back(wait.waiter);
  }
  found.creating = SortedUnique(std::move(found.creating));
  found.calling = SortedUnique(std::move(found.calling));
  if (found.creating.empty() || found.calling.empty()) return std::nullopt;
  return found;
}

Finding ExplainTwoOperations(const View& view, const WaitGraph& graph, const TwoOperations& two, std::int64_t began) {
  Finding finding;
  finding.kind = Kind::kOrderMismatch;
  const bool tie = two.creating.size() == two.calling.size();
  std::vector<int> nodes = two.creating.size() < two.calling.size() ? two.creating : two.calling;
  if (tie) nodes.insert(nodes.end(), two.creating.begin(), two.creating.end());
  Fill(view, graph, SortedUnique(std::move(nodes)), began, &finding);
  finding.communicator = DescribeComm(*two.comm);
  const Node& creates = view.nodes[two.creating.front()];
  const Node& calls = view.nodes[two.calling.front()];
  finding.summary = Capital(Ranks(RanksOf(view, two.creating))) + " make a communicator from " + CommText(*two.comm) +
                    " while " + Ranks(RanksOf(view, two.calling)) +
                    " call a collective on it: each waits for the others.";
  finding.evidence = {Ranks({creates.rank}) + ": " + WhereText(view, creates),
                      Ranks({calls.rank}) + ": " + WhereText(view, calls)};
  finding.next_steps = {"compare the order of the calls on this communicator; making one from it is one of them"};
  return finding;
}

// choosers: who waits for anybody of several is one of the circle, since any other of it would have freed the rest.
Finding ExplainCycle(const View& view, const WaitGraph& graph, const std::vector<const Wait*>& cycle,
                     const std::vector<int>& choosers, std::int64_t began) {
  Finding finding;
  finding.kind = Kind::kDeadlock;
  std::vector<int> nodes = choosers;
  for (const Wait* wait : cycle) nodes.push_back(wait->waiter);
  Fill(view, graph, SortedUnique(std::move(nodes)), began, &finding);
  finding.communicator = DescribeComm(view.comms[cycle.front()->comm]);
  finding.position = cycle.front()->position;
  const bool alone = nodes.size() == 1;
  finding.summary = "Deadlock: " + Ranks(finding.culprits) +
                    (alone ? " waits for itself, in a call that only a further call of its own could end."
                           : " wait for one another in a circle, each in a call that only the next can end.");
  bool held = false, epochs = false;
  for (const Wait* wait : cycle) {
    const CommView& comm = view.comms[wait->comm];
    const std::string call = wait->call != nullptr ? CallText(*wait->call) : std::string("a collective");
    const std::string whom = alone ? std::string("itself") : Ranks({wait->other_rank});
    finding.evidence.push_back(Ranks({view.nodes[wait->waiter].rank}) + " waits for " + whom + " in " + call + " on " +
                               CommText(comm) +
                               (wait->what == WaitFor::kEpoch ? ", until it calls " + EpochCallAwaited(*wait) : ""));
    finding.calls.push_back(DescribeCall(view, comm, comm.members[wait->member], wait->position, wait->call));
    epochs = epochs || wait->what == WaitFor::kEpoch;
    held = held || (wait->call != nullptr && IsSend(*wait->call) && (wait->call->flags & format::kSynchronous) == 0);
  }
  if (held)
    finding.evidence.emplace_back(
        "a standard send waits for its receiver where the message is larger than MPI's buffers (the eager limit)");
  finding.next_steps = {
      epochs  ? "compare which ranks MPI_Win_start and MPI_Win_post name, and in what order the epochs "
                "are opened and closed; give locks back before waiting for others"
      : alone ? "give a message to itself to MPI_Sendrecv or to non-blocking calls and MPI_Waitall, or "
                "look whether another rank was meant"
              : "let one of the ranks make its calls in the other order, or replace the pair of them by "
                "MPI_Sendrecv or by non-blocking calls and MPI_Waitall"};
  return finding;
}

}  // namespace

std::vector<Finding> FindDeadlocksOfMpi(const View& view, const WaitGraph& graph) {
  const std::vector<int> deadlocked = graph.Deadlocked();
  std::vector<const Wait*> cycle =
      graph.CycleAmong(ProvenAmong(view, graph, deadlocked), [&](const Wait& wait) { return Proven(view, wait); });
  if (cycle.empty()) cycle = graph.CycleAmong(deadlocked);
  if (cycle.empty()) return {};
  std::int64_t latest = 0;
  for (const Wait* wait : cycle) latest = std::max({latest, wait->since_ns, view.nodes[wait->waiter].active_ns});
  std::optional<Certainty> certainty =
      IsClosed(view, graph, cycle, deadlocked) ? Certainty::kCertain : ByTime(view, view.now_ns - latest);
  if (!certainty) return {};
  const bool made = std::any_of(cycle.begin(), cycle.end(), MadeSynchronous);
  if (made) certainty = std::min(*certainty, Certainty::kLikely);
  const Channels channels(view);
  const std::optional<PassedBy> passed = FindPassedBy(view, channels, graph, cycle);
  if (passed && !SaysWhose(*passed->receive)) certainty = std::min(*certainty, Certainty::kLikely);
  const std::optional<TwoOperations> two = FindTwoOperations(view, graph, cycle);
  Finding finding = passed ? ExplainPassedBy(view, graph, *passed, latest)
                    : two  ? ExplainTwoOperations(view, graph, *two, latest)
                           : ExplainCycle(view, graph, cycle,
                                          ChoosersBehind(graph, cycle, {deadlocked.begin(), deadlocked.end()}), latest);
  finding.certainty = *certainty;
  if (made)
    finding.evidence.emplace_back(
        "it hangs where the message exceeds the eager limit: NCCLWATCH_MPI_CHECKS=sync has made the standard send "
        "synchronous, and smaller messages are buffered without it");
  return {std::move(finding)};
}

}  // namespace ncclwatch::diagnosis
