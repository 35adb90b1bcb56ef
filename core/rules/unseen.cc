// missing_participant where every rank that has a black box has made the call, and the rest of the communicator is on
// other machines or not watched. Nothing is known of those: never more than suspected, and only after the longer limit.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "core/rules/rules.h"

namespace ncclwatch::diagnosis {
namespace {

// All seen members are in the same last collective, alive, and at least one is known to be still in it.
bool AllSeenWait(const View& view, const WaitGraph& graph, const CommView& comm, std::int64_t* since_ns) {
  if (!comm.comparable || comm.sizes_differ || comm.members.empty() || comm.members.size() >= comm.size) return false;
  const std::uint64_t entered = comm.members.front().entered;
  bool proven = false;
  for (const Member& member : comm.members) {
    const Process& process = view.process(member);
    if (member.node < 0 || !member.alive_in() || process.outcome.gone() || graph.Waits(member.node)) return false;
    if (entered == 0 || member.entered != entered || view.Unfinished(member) >= entered) return false;
    const reader::Call* call = member.At(entered - 1);
    if (call == nullptr) return false;
    proven = proven || call->returned_ns == 0 || (call->flags & format::kMarked) != 0;
    *since_ns = std::max({*since_ns, process.At(call->entered_ns), view.nodes[member.node].active_ns});
  }
  return proven;
}

}  // namespace

std::vector<Finding> FindUnseen(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  std::vector<Finding> findings;
  for (const CommView& comm : view.comms) {
    std::int64_t since = 0;
    if (!AllSeenWait(view, graph, comm, &since)) continue;
    if (view.now_ns - since < view.snapshot->limits.likely_after_ns) continue;
    std::vector<int> unseen, seen;
    for (std::uint32_t rank = 0; rank < comm.size; ++rank) {
      if (comm.OfRank(rank) == nullptr) unseen.push_back(view.JobRank(comm, rank));
    }
    for (const Member& member : comm.members) seen.push_back(view.nodes[member.node].rank);
    const std::uint64_t position = comm.members.front().entered - 1;
    Finding finding;
    finding.kind = Kind::kMissingParticipant;
    finding.certainty = Certainty::kSuspected;
    unseen = SortedUnique(std::move(unseen));
    std::erase(unseen, -1);
    AddCulprits(view, unseen, &finding);
    finding.victims = SortedUnique(std::move(seen));
    finding.communicator = DescribeComm(comm);
    finding.position = position;
    finding.calls = DescribeCalls(view, comm, position);
    finding.began_at_ns = ToRealtime(view, since);
    const std::string who =
        unseen.empty() ? fmt::format("ranks that have no {} here", SourceText(view)) : Ranks(unseen);
    finding.summary = fmt::format("{} have waited {} in {}, collective {} of {}, probably for {}.",
                                  Capital(Ranks(finding.victims)), Seconds(view.now_ns - since),
                                  CallText(*comm.members.front().At(position)), position, CommText(comm), who);
    finding.evidence = {"every rank that has a " + std::string(SourceText(view)) + " here has made the call",
                        CoverageText(view, comm)};
    finding.next_steps = {view.process(comm.members.front()).box->dump
                              ? "look for the dumps and logs of the other ranks: a rank that died wrote no dump"
                              : "run `ncclwatch diagnose` on the machines of the other ranks, or on all run "
                                "directories together"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace ncclwatch::diagnosis
