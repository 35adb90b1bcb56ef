// deadlock of MPI's calls, and messages that pass by the receives that wait for them (point_to_point_mismatch). A rank
// in a blocking call makes no other call: where each of a cycle waits for the next, none ever goes on. That needs no
// time to prove, but for sends that MPI may yet take into a buffer.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/model/text.h"
#include "core/rules/mpi/odd_round.h"
#include "core/rules/rules.h"
#include "core/waits/mpi_near_miss.h"
#include "core/waits/mpi_proofs.h"
#include "core/waits/windows.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// Without NCCLWATCH_MPI_CHECKS=sync MPI might have taken the message into a buffer.
bool MadeSynchronous(const Wait* wait) {
  return wait->call != nullptr && (wait->call->flags & format::kMadeSynchronous) != 0;
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
      if (wait.choice >= 0 && deadlocked.contains(wait.other)) choosers.push_back(wait.other);
      if (wait.other >= 0 && seen.insert(wait.other).second) next.push_back(wait.other);
    }
  }
  return choosers;
}

// Of a receive from wildcard, or a probe, another message may be the one that is missing.
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

Finding ExplainPassedBy(const View& view, const WaitGraph& graph, const NearMissMessage& passed, std::int64_t began) {
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
  finding.summary = fmt::format(
      "{} waits for a message from {}, which has sent one that does not match: {}.", Capital(receiver), sender,
      other_comm ? "it is on another communicator"
                 : fmt::format("tag {} instead of {}", passed.send->tag, passed.receive->tag));
  finding.evidence = {sender + ": " + MessageText(comm, *passed.send) + "; nobody has received it",
                      receiver + ": " + MessageText(waits_in, *passed.receive)};
  finding.next_steps = {
      "compare tag, communicator and partner of the two calls named above; if both are as intended, receive in the "
      "order of the sends"};
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
  finding.summary =
      fmt::format("{} {} a communicator from {} while {} {} a collective on it: each waits for the others.",
                  Capital(Ranks(RanksOf(view, two.creating))), two.creating.size() == 1 ? "makes" : "make",
                  CommText(*two.comm), Ranks(RanksOf(view, two.calling)), two.calling.size() == 1 ? "calls" : "call");
  finding.evidence = {Ranks({creates.rank}) + ": " + WhereText(view, creates),
                      Ranks({calls.rank}) + ": " + WhereText(view, calls)};
  finding.next_steps = {"compare the order of the calls on this communicator; making one from it is one of them"};
  return finding;
}

Finding ExplainOddRound(const View& view, const WaitGraph& graph, const OddRound& odd, std::int64_t began) {
  const Wait& wait = *odd.wait;
  const CommView& comm = view.comms[wait.comm];
  const std::string receiver = Ranks({view.nodes[wait.waiter].rank}), sender = Ranks({view.nodes[wait.other].rank});
  Finding finding;
  finding.kind = Kind::kPointToPointMismatch;
  Fill(view, graph, {odd.is_missing ? wait.other : wait.waiter}, began, &finding);
  finding.communicator = DescribeComm(comm);
  finding.calls = {DescribeCall(view, comm, comm.members[wait.member], wait.position, wait.call)};
  const std::string rounds = "between two collectives of " + CommText(*odd.rounds_of) + ", ";
  if (odd.is_missing) {
    finding.summary =
        fmt::format("{} waits for a message that {} has not sent: a send is missing.", Capital(receiver), sender);
    finding.evidence.push_back(fmt::format("{}{} has always sent {} messages with tag {} to {}, and this time {}",
                                           rounds, sender, odd.usual, wait.call->tag, receiver, odd.now));
  } else {
    finding.summary = fmt::format("{} waits for a message that {} does not send: it receives once too often.",
                                  Capital(receiver), sender);
    finding.evidence.push_back(fmt::format("{}{} has always received {} messages with tag {} from {}, and this time {}",
                                           rounds, receiver, odd.usual, wait.call->tag, sender, odd.now));
  }
  finding.evidence.push_back(receiver + ": " + MessageText(comm, *wait.call));
  finding.evidence.push_back(sender + ": " + WhereText(view, view.nodes[wait.other]));
  finding.next_steps = {
      fmt::format("look for what has made {} {} this time: a condition around the call, or a wrong "
                  "partner or tag",
                  odd.is_missing ? sender : receiver, odd.is_missing ? "leave out the send" : "receive once more")};
  return finding;
}

// "rank 2", "any of ranks 0,2": of those of one choice each would do.
std::string WhomText(const WaitGraph& graph, const Wait& wait) {
  if (wait.choice < 0) return Ranks({wait.other_rank});
  std::vector<int> ranks;
  for (const int index : graph.out[wait.waiter])
    if (graph.waits[index].choice == wait.choice) ranks.push_back(graph.waits[index].other_rank);
  ranks = SortedUnique(std::move(ranks));
  return (ranks.size() > 1 ? "any of " : "") + Ranks(ranks);
}

// choosers: who waits for any rank of several is one of the cycle, since any other of it would have freed the rest.
Finding ExplainCycle(const View& view, const WaitGraph& graph, const std::vector<const Wait*>& cycle,
                     const std::vector<int>& choosers, std::int64_t began) {
  Finding finding;
  finding.kind = Kind::kDeadlock;
  std::vector<int> nodes = choosers;
  for (const Wait* wait : cycle) nodes.push_back(wait->waiter);
  nodes = SortedUnique(std::move(nodes));
  Fill(view, graph, nodes, began, &finding);
  finding.communicator = DescribeComm(view.comms[cycle.front()->comm]);
  finding.position = cycle.front()->position;
  const bool alone = nodes.size() == 1;
  finding.summary = "Deadlock: " + Ranks(finding.culprits) +
                    (alone ? " waits for itself, in a call that only a later call of its own could complete."
                           : " wait for one another in a cycle, each in a call that only the next one can complete.");
  bool held = false, epochs = false;
  for (const Wait* wait : cycle) {
    const CommView& comm = view.comms[wait->comm];
    const std::string call = wait->call != nullptr ? CallText(*wait->call) : std::string("a collective");
    const std::string whom = alone ? std::string("itself") : WhomText(graph, *wait);
    finding.evidence.push_back(Ranks({view.nodes[wait->waiter].rank}) + " waits for " + whom + " in " + call + " on " +
                               CommText(comm) +
                               (wait->what == WaitFor::kEpoch ? ", until it calls " + EpochCallAwaited(*wait) : ""));
    finding.calls.push_back(DescribeCall(view, comm, comm.members[wait->member], wait->position, wait->call));
    epochs = epochs || wait->what == WaitFor::kEpoch;
    held = held || (wait->call != nullptr && IsSend(*wait->call) && (wait->call->flags & format::kSynchronous) == 0);
  }
  if (held)
    finding.evidence.emplace_back(
        "a standard send waits for its receiver if the message is larger than MPI's buffers (the eager limit)");
  finding.next_steps = {
      epochs  ? "compare which ranks MPI_Win_start and MPI_Win_post name, and in what order the epochs "
                "are opened and closed; release locks before waiting for others"
      : alone ? "send a message to itself with MPI_Sendrecv, or with non-blocking calls and MPI_Waitall, or "
                "check whether another rank was meant"
              : "let one of the ranks make its calls in the other order, or replace each pair of calls with "
                "MPI_Sendrecv, or with non-blocking calls and MPI_Waitall"};
  return finding;
}

}  // namespace

std::vector<Finding> FindDeadlocksOfMpi(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  const std::vector<int> deadlocked = graph.Deadlocked();
  const Proofs proofs(view, graph, deadlocked);
  const std::vector<const Wait*> cycle = proofs.Cycle();
  if (cycle.empty()) return {};
  std::int64_t latest = 0;
  for (const Wait* wait : cycle) latest = std::max({latest, wait->since_ns, view.nodes[wait->waiter].active_ns});
  std::optional<Certainty> certainty =
      proofs.IsClosed(cycle) ? Certainty::kCertain : ByTime(view, view.now_ns - latest);
  if (!certainty) return {};
  const bool made = std::any_of(cycle.begin(), cycle.end(), MadeSynchronous);
  if (made) certainty = std::min(*certainty, Certainty::kLikely);
  const Channels channels(view);
  const std::optional<NearMissMessage> passed = FindNearMissMessage(view, channels, graph, cycle);
  if (passed && !SaysWhose(*passed->receive)) certainty = std::min(*certainty, Certainty::kLikely);
  const std::optional<TwoOperations> two = FindTwoOperations(view, graph, cycle);
  const std::optional<OddRound> odd = FindOddRound(view, cycle);
  if (odd) certainty = std::min(*certainty, Certainty::kLikely);
  Finding finding = passed ? ExplainPassedBy(view, graph, *passed, latest)
                    : odd  ? ExplainOddRound(view, graph, *odd, latest)
                    : two  ? ExplainTwoOperations(view, graph, *two, latest)
                           : ExplainCycle(view, graph, cycle,
                                          ChoosersBehind(graph, cycle, {deadlocked.begin(), deadlocked.end()}), latest);
  finding.certainty = *certainty;
  if (made)
    finding.evidence.emplace_back(
        "NCCLWATCH_MPI_CHECKS=sync has made the standard send synchronous: without it the job hangs only if the "
        "message "
        "exceeds the eager limit");
  return {std::move(finding)};
}

}  // namespace ncclwatch::diagnosis
