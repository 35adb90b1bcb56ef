// order_mismatch of calls that make or free communicators of MPI. Those on one communicator have an order, and one with
// its collectives: all ranks must make them in the same one, whether or not anything hangs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/calls/creations.h"
#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

// Members that made the same call at the same place.
struct Group {
  std::vector<const Member*> members;
  const Call* call = nullptr;  // of the first of them
};

struct Parting {
  std::uint64_t ordinal = 0;
  std::vector<Group> groups;  // the largest first
  bool other_operation = false;
  bool everybody = false;  // all that can have made it
  std::int64_t began_ns = 0;
};

using CallsByOrdinal = std::map<std::uint64_t, std::vector<std::pair<const Member*, const Call*>>>;  // by ordinal

CallsByOrdinal Gather(const View& view, const CommView& comm) {
  CallsByOrdinal made;
  for (const Member& member : comm.members) {
    if (member.node < 0) continue;
    for (const Call& call : view.process(member).box->calls)
      if (call.communicator == member.comm->index && call.generation == member.comm->generation && HasOrdinal(call))
        made[call.position].push_back({&member, &call});
  }
  return made;
}

std::optional<Parting> PartingAt(const View& view, const CommView& comm, std::uint64_t ordinal,
                                 const CallsByOrdinal::mapped_type& calls) {
  Parting parting;
  parting.ordinal = ordinal;
  std::vector<std::int64_t> began;
  for (const auto& [member, call] : calls) {
    const auto same = std::find_if(parting.groups.begin(), parting.groups.end(), [made = call](const Group& group) {
      return CreationOf(*group.call) == CreationOf(*made);
    });
    const std::int64_t at = view.process(*member).At(call->entered_ns);
    if (same == parting.groups.end()) {
      parting.groups.push_back({{member}, call});
      began.push_back(at);
      continue;
    }
    same->members.push_back(member);
    std::int64_t& first = began[static_cast<std::size_t>(same - parting.groups.begin())];
    first = std::min(first, at);
  }
  if (parting.groups.size() < 2) return std::nullopt;
  std::sort(began.begin(), began.end());
  parting.began_ns = began[1];
  parting.everybody = calls.size() == comm.size;
  for (const Group& group : parting.groups)
    if (CreationOf(*group.call).operation != CreationOf(*parting.groups[0].call).operation)
      parting.other_operation = true;
  std::stable_sort(parting.groups.begin(), parting.groups.end(),
                   [](const Group& a, const Group& b) { return a.members.size() > b.members.size(); });
  return parting;
}

std::string OpText(const Call& call) { return std::string(functions::OpName(call.function)); }

std::string PlaceText(const Call& call) {
  return OpText(call) + " after " + Plural(call.count, "collective") + " on it";
}

void AddVictimsOf(const CommView& comm, Finding* finding) {
  for (const int rank : comm.job_ranks)
    if (rank >= 0 && !std::binary_search(finding->culprits.begin(), finding->culprits.end(), rank))
      finding->victims.push_back(rank);
  finding->victims = SortedUnique(std::move(finding->victims));
}

std::string Summary(const View& view, const CommView& comm, const Parting& parting) {
  const Group& usual = parting.groups[0];
  const Group& odd = parting.groups[1];
  const auto said = [&](const Group& group) {
    return parting.other_operation ? OpText(*group.call) : PlaceText(*group.call);
  };
  const bool tie = usual.members.size() == odd.members.size();
  return fmt::format("{} called {} where {} called {}: number {} of the calls that make communicators from {}{}.",
                     Capital(Ranks(RanksOf(view, odd.members))), said(odd), Ranks(RanksOf(view, usual.members)),
                     said(usual), parting.ordinal, CommText(comm), tie ? kTie : "");
}

Finding Explain(const View& view, const CommView& comm, const Parting& parting) {
  Finding finding;
  finding.kind = Kind::kOrderMismatch;
  const bool tie = parting.groups[0].members.size() == parting.groups[1].members.size();
  std::vector<int> culprits;
  bool one_thread = true;
  for (std::size_t i = 0; i < parting.groups.size(); ++i) {
    const Group& group = parting.groups[i];
    for (const Member* member : group.members) one_thread = one_thread && OneThread(view.process(*member));
    if (i == 0 && !tie) continue;
    for (const int rank : RanksOf(view, group.members)) culprits.push_back(rank);
  }
  std::vector<std::size_t> votes;
  for (const Group& group : parting.groups) votes.push_back(group.members.size());
  const bool decided = parting.everybody || MajorityIsFinal(std::move(votes), comm.size);
  finding.certainty = one_thread && decided ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, SortedUnique(std::move(culprits)), &finding);
  AddVictimsOf(comm, &finding);
  finding.communicator = DescribeComm(comm);
  finding.began_at_ns = ToRealtime(view, parting.began_ns);
  finding.unsettled = !parting.everybody;
  finding.summary = Summary(view, comm, parting);
  for (const Group& group : parting.groups) {
    CallSummary summary = DescribeCall(view, comm, *group.members.front(), parting.ordinal, group.call);
    summary.ranks = RanksOf(view, group.members);
    summary.count.reset();
    summary.state = group.call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
    finding.calls.push_back(std::move(summary));
    std::string line = Ranks(RanksOf(view, group.members)) + ": " + PlaceText(*group.call);
    if (group.call->site != 0)
      line += ", called from " + SiteText(view, view.process(*group.members.front()), group.call->site);
    finding.evidence.push_back(std::move(line));
  }
  finding.next_steps = {
      "make communicators in the same order on all ranks, and at the same place among the collectives of the "
      "communicator that they are made from"};
  return finding;
}

std::optional<Parting> FirstParting(const View& view, const CommView& comm) {
  for (const auto& [ordinal, calls] : Gather(view, comm))
    if (std::optional<Parting> parting = PartingAt(view, comm, ordinal, calls)) return parting;
  return std::nullopt;
}

// ---- freed by some alone
// ---------------------------------------------------------------------------------------------

bool HasFinalized(const View& view, const Process& process) {
  return HasCalledFinalize(process) && !MayStillFree(view, process);
}

struct Unfreed {
  std::vector<const Member*> freed, kept;
};

// Until MPI_Finalize it may still come.
std::optional<Unfreed> FindUnfreed(const View& view, const CommView& comm) {
  if (comm.parent == 0) return std::nullopt;  // MPI_COMM_WORLD
  Unfreed found;
  for (const Member& member : comm.members) {
    if (member.node < 0 || !member.rank_known()) continue;  // a rank that is not part of it has none either
    if (member.comm->state == format::CommunicatorState::kDestroyed) found.freed.push_back(&member);
    if (member.comm->state == format::CommunicatorState::kReady && HasFinalized(view, view.process(member)))
      found.kept.push_back(&member);
  }
  const bool all_know = found.freed.size() + found.kept.size() == comm.size;
  if (!all_know || found.freed.empty() || found.kept.empty()) return std::nullopt;
  return found;
}

Finding ExplainUnfreed(const View& view, const CommView& comm, const Unfreed& unfreed) {
  Finding finding;
  finding.kind = Kind::kOrderMismatch;
  // A callback that MPI_Finalize calls may free it, which nobody sees.
  finding.certainty = Certainty::kLikely;
  std::vector<const Member*> odd = unfreed.kept.size() > unfreed.freed.size() ? unfreed.freed : unfreed.kept;
  if (unfreed.kept.size() == unfreed.freed.size()) odd.insert(odd.end(), unfreed.freed.begin(), unfreed.freed.end());
  AddCulprits(view, RanksOf(view, odd), &finding);
  AddVictimsOf(comm, &finding);
  finding.communicator = DescribeComm(comm);
  std::int64_t began = 0;
  for (const Member* member : unfreed.kept)
    for (const Call& call : view.process(*member).box->calls)
      if (call.function == Function::MPI_Finalize) began = std::max(began, view.process(*member).At(call.entered_ns));
  finding.began_at_ns = ToRealtime(view, began);
  finding.summary =
      fmt::format("{} reached MPI_Finalize without freeing {}, which {} did: all of its ranks must call MPI_Comm_free.",
                  Capital(Ranks(RanksOf(view, unfreed.kept))), CommText(comm), Ranks(RanksOf(view, unfreed.freed)));
  finding.evidence.push_back(Ranks(RanksOf(view, unfreed.freed)) + ": freed");
  finding.evidence.push_back(Ranks(RanksOf(view, unfreed.kept)) + ": not freed by MPI_Finalize");
  finding.next_steps = {"free the communicator on all of its ranks, or on none"};
  return finding;
}

}  // namespace

std::vector<Finding> FindCreationMismatches(const Facts& facts) {
  const View& view = facts.view;
  const std::vector<Mismatch>& mismatches = facts.mismatches;
  WaitGraph* const graph = &facts.graph;
  std::vector<Finding> findings;
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    if (!comm.comparable || !SpeaksMpi(comm)) continue;
    const auto earlier = std::find_if(mismatches.begin(), mismatches.end(),
                                      [&](const Mismatch& mismatch) { return mismatch.comm == static_cast<int>(c); });
    const std::optional<Parting> parting = FirstParting(view, comm);
    const bool follows = earlier != mismatches.end() && parting && earlier->difference.began_ns <= parting->began_ns;
    if (parting && !follows) {
      findings.push_back(Explain(view, comm, *parting));
      for (std::size_t i = 1; i < parting->groups.size(); ++i)
        for (const Member* member : parting->groups[i].members) graph->blocked[member->node] = 1;
    } else if (const std::optional<Unfreed> unfreed = FindUnfreed(view, comm)) {
      findings.push_back(ExplainUnfreed(view, comm, *unfreed));
    }
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.began_at_ns < b.began_at_ns; });
  return findings;
}

}  // namespace ncclwatch::diagnosis
