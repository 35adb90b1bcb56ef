// point_to_point_mismatch of a send and a receive that meet and disagree about the size. Bytes are compared: NCCL knows
// nothing of types here. Which of the two is wrong only the sizes of their earlier steps can tell, or that one of them
// disagrees with others as well.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/model/text.h"
#include "core/rules/departed.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

struct Pair {
  const Member* sender = nullptr;
  const Member* receiver = nullptr;
  const Call* send = nullptr;
  const Call* receive = nullptr;
  std::int64_t began_ns = 0;  // when the second of them was called
};

// Of one rank in one communicator, by peer, in order of position.
std::map<std::int32_t, std::vector<const Call*>> ByPeer(const Member& member, Function function) {
  std::map<std::int32_t, std::vector<const Call*>> by_peer;
  for (const Call* call : member.messages)
    if (call->function == function && call->root >= 0) by_peer[call->root].push_back(call);
  return by_peer;
}

const Call* At(const std::vector<const Call*>& calls, std::uint64_t position) {
  const auto found = std::lower_bound(calls.begin(), calls.end(), position,
                                      [](const Call* call, std::uint64_t wanted) { return call->position < wanted; });
  return found != calls.end() && (*found)->position == position ? *found : nullptr;
}

std::int64_t BeganNs(const View& view, const Pair& pair) {
  return std::max(view.process(*pair.sender).At(pair.send->entered_ns),
                  view.process(*pair.receiver).At(pair.receive->entered_ns));
}

// The first one from each rank to each other, in order of time.
std::vector<Pair> UnequalPairs(const View& view, const CommView& comm) {
  std::vector<Pair> pairs;
  if (!comm.comparable || std::all_of(comm.members.begin(), comm.members.end(),
                                      [](const Member& member) { return member.messages.empty(); }))
    return pairs;
  std::map<const Member*, std::map<std::int32_t, std::vector<const Call*>>> receives;
  for (const Member& member : comm.members) receives[&member] = ByPeer(member, Function::ncclRecv);
  for (const Member& sender : comm.members) {
    for (const auto& [peer, sends] : ByPeer(sender, Function::ncclSend)) {
      const Member* receiver = comm.OfRank(static_cast<std::uint32_t>(peer));
      if (receiver == nullptr) continue;
      const auto known = receives[receiver].find(static_cast<std::int32_t>(sender.comm->rank));
      if (known == receives[receiver].end()) continue;
      for (const Call* send : sends) {
        const Call* receive = At(known->second, send->position);
        if (receive == nullptr || BytesOf(*send) == BytesOf(*receive)) continue;
        Pair& pair = pairs.emplace_back(Pair{&sender, receiver, send, receive});
        pair.began_ns = BeganNs(view, pair);
        break;  // what comes after it is shifted, or wrong for the same reason
      }
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.began_ns < b.began_ns; });
  return pairs;
}

// One end of all of them, if several are at the other ends; else null. What a rank sends to itself says nothing.
const Member* CommonEnd(const std::vector<Pair>& pairs) {
  const Member* common = nullptr;
  for (const Member* end : {pairs.front().sender, pairs.front().receiver}) {
    std::set<const Member*> others;
    const bool all = std::all_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      if (pair.sender == pair.receiver) return true;
      others.insert(pair.sender == end ? pair.receiver : pair.sender);
      return pair.sender == end || pair.receiver == end;
    });
    if (all && others.size() > 1) common = end;
  }
  return common;
}

bool IsStuck(const Member& member, const Call& call) {
  if (call.returned_ns == 0) return true;
  return member.Outstanding(call);
}

CallSummary DescribeSide(const View& view, const CommView& comm, const Member& member, const Call& call) {
  CallSummary summary = DescribeCall(view, comm, member, call.position, &call);
  summary.state = call.returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
  if (!IsStuck(member, call) && (call.flags & format::kMarked) != 0) summary.state = CallState::kFinished;
  return summary;
}

Finding Explain(const View& view, const CommView& comm, const Pair& pair) {
  Finding finding;
  finding.kind = Kind::kPointToPointMismatch;
  // One that ended may have been taken as it was: a transport can bring fewer bytes than are asked for.
  const bool stuck = IsStuck(*pair.sender, *pair.send) || IsStuck(*pair.receiver, *pair.receive);
  finding.certainty = stuck ? Certainty::kCertain : Certainty::kLikely;
  const std::vector<int> nodes = {pair.sender->node, pair.receiver->node};
  std::vector<int> ranks;
  for (const int node : nodes)
    if (node >= 0) ranks.push_back(view.nodes[node].rank);
  AddCulprits(view, SortedUnique(ranks), &finding);
  for (const int rank : comm.job_ranks)
    if (rank >= 0 && !std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank))
      finding.victims.push_back(rank);
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.communicator = DescribeComm(comm);
  finding.position = pair.send->position;
  finding.calls = {DescribeSide(view, comm, *pair.sender, *pair.send),
                   DescribeSide(view, comm, *pair.receiver, *pair.receive)};
  finding.began_at_ns = ToRealtime(view, pair.began_ns);
  const std::string from = Ranks(finding.calls[0].ranks), to = Ranks(finding.calls[1].ranks);
  finding.summary =
      fmt::format("{} sends {} bytes to {}, which receives {}: message {} in this direction on {}.", Capital(from),
                  BytesOf(*pair.send), to, BytesOf(*pair.receive), pair.send->position, CommText(comm));
  finding.evidence = {from + ": " + CallText(*pair.send), to + ": " + CallText(*pair.receive),
                      "the n-th send of a pair of ranks meets its n-th receive; if one was left out before, all later "
                      "ones are shifted"};
  finding.next_steps = {
      "compare how the two ranks compute the size of this message, and how many messages they exchanged before"};
  return finding;
}

// One of them is wrong, and the other one is not: likely, and no more.
void Accuse(const View& view, int node, Finding* finding) {
  finding->certainty = std::min(finding->certainty, Certainty::kLikely);
  std::vector<int> victims = std::move(finding->culprits);
  finding->culprits.clear();
  finding->culprit_details.clear();
  AddCulprits(view, {view.nodes[static_cast<std::size_t>(node)].rank}, finding);
  victims.insert(victims.end(), finding->victims.begin(), finding->victims.end());
  std::erase(victims, finding->culprits.front());
  finding->victims = SortedUnique(std::move(victims));
}

// True if one of them has done otherwise than in its steps before, and the other one has not.
bool AccuseTheDeparted(const View& view, const CommView& comm, const Pair& pair, Finding* finding) {
  const int index = static_cast<int>(&comm - view.comms.data());
  const Unmatched message{index, pair.sender, pair.receiver, true, pair.send->position, 0, pair.send};
  const std::optional<Departed> departed = FindDeparted(view, {message}, /*resized=*/true);
  if (!departed || departed->others.empty()) return false;
  Accuse(view, departed->node, finding);
  finding->evidence.insert(finding->evidence.begin(), finding->summary);
  finding->summary = DepartedText(view, *departed);
  for (std::string& line : DepartedEvidence(view, *departed)) finding->evidence.push_back(std::move(line));
  return true;
}

// One rank disagrees with several others, and they agree among themselves.
void AccuseTheCommonEnd(const View& view, const std::vector<Pair>& pairs, Finding* finding) {
  const Member* const common = CommonEnd(pairs);
  if (common == nullptr || common->node < 0) return;
  Accuse(view, common->node, finding);
  std::vector<int> others;
  for (const Pair& pair : pairs)
    for (const Member* end : {pair.sender, pair.receiver})
      if (end != common && end->node >= 0) others.push_back(view.nodes[static_cast<std::size_t>(end->node)].rank);
  finding->evidence.push_back(fmt::format("{} is one end of all {} that differ in size; {} are at the other ends",
                                          Ranks(finding->culprits), Plural(pairs.size(), "message"),
                                          Ranks(SortedUnique(std::move(others)))));
}

}  // namespace

std::vector<Finding> FindMessageMismatches(const Facts& facts) {
  const View& view = facts.view;
  WaitGraph* const graph = &facts.graph;
  std::vector<Finding> findings;
  for (const CommView& comm : view.comms) {
    if (SpeaksMpi(comm)) continue;
    const std::vector<Pair> pairs = UnequalPairs(view, comm);
    if (pairs.empty()) continue;
    findings.push_back(Explain(view, comm, pairs.front()));
    if (!AccuseTheDeparted(view, comm, pairs.front(), &findings.back()))
      AccuseTheCommonEnd(view, pairs, &findings.back());
    for (const Pair& pair : pairs)
      for (const Member* member : {pair.sender, pair.receiver})
        if (member->node >= 0) graph->blocked[member->node] = 1;
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.began_at_ns < b.began_at_ns; });
  return findings;
}

}  // namespace ncclwatch::diagnosis
