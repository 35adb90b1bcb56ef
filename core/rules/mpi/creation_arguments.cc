// argument_mismatch of calls that make communicators of MPI: arguments in which all ranks must agree, those in which
// the members of a group must, and the tag that two leaders must share.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/calls/creations.h"
#include "core/calls/mpi_message.h"
#include "core/model/text.h"
#include "core/rules/mpi/disagreement.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using format::Argument;
using functions::Function;
using reader::Call;

using Creations = std::vector<std::vector<const Call*>>;  // of each process

Creations CreationsOf(const View& view) {
  Creations creations(view.processes.size());
  for (std::size_t i = 0; i < creations.size(); ++i)
    for (const Call& call : view.processes[i].box->calls)
      if (HasOrdinal(call) || call.function == Function::MPI_Comm_create_group) creations[i].push_back(&call);
  return creations;
}

std::vector<Made> Gather(const View& view, const CommView& comm, const Creations& creations) {
  std::vector<Made> made;
  for (const Member& member : comm.members) {
    if (member.node < 0) continue;
    for (const Call* call : creations[static_cast<std::size_t>(member.process)])
      if (call->communicator == member.comm->index && call->generation == member.comm->generation)
        made.push_back({&member, call, view.process(member).box->PartsOf(call->slot)});
  }
  return made;
}

// Arguments of all ranks, and groups, by the ordinal of the call.

std::optional<Disagreement> OtherGroups(const View& view, const CommView& comm, const std::vector<const Made*>& calls) {
  std::vector<ArgumentGroup> parties = PartiesBy(calls, [](const Made& made) { return GroupOf(*made.parts); });
  if (parties.empty()) return std::nullopt;
  Disagreement found = Between(view, comm, std::move(parties));
  found.text = "the group " + ListText(GroupOf(*found.parties[1].made.front()->parts)) + " instead of " +
               ListText(GroupOf(*found.parties[0].made.front()->parts));
  found.everybody = calls.size() == GroupOf(*found.parties[0].made.front()->parts).size();
  return found;
}

// A process that gives a group says whom it has to agree with: all of its members.
std::optional<Disagreement> CompareGroups(const View& view, const CommView& comm,
                                          const std::vector<const Made*>& calls) {
  const auto rank_of = [](const Made& made) { return std::uint64_t{made.member->comm->rank}; };
  for (const Made* asked : calls) {
    const Values group = GroupOf(*asked->parts);
    if (std::find(group.begin(), group.end(), rank_of(*asked)) == group.end()) continue;
    std::vector<const Made*> members;
    for (const Made* made : calls)
      if (std::find(group.begin(), group.end(), rank_of(*made)) != group.end()) members.push_back(made);
    if (std::optional<Disagreement> found = OtherGroups(view, comm, members)) return found;
  }
  return std::nullopt;
}

std::optional<Disagreement> FirstOfAll(const View& view, const CommView& comm, const std::vector<Made>& made) {
  std::map<std::uint64_t, std::vector<const Made*>> by_ordinal;
  for (const Made& one : made)
    if (HasOrdinal(*one.call)) by_ordinal[one.call->position].push_back(&one);
  for (const auto& [ordinal, calls] : by_ordinal) {
    const Creation creation = CreationOf(*calls.front()->call);
    const bool one_call = std::all_of(calls.begin(), calls.end(),
                                      [&](const Made* other) { return CreationOf(*other->call) == creation; });
    if (!one_call) return std::nullopt;  // order_mismatch, and what follows cannot be compared
    std::vector<const Made*> agreeing, groups;
    for (const Made* one : calls) {
      if (ArgumentsHash(*one->call) != 0) agreeing.push_back(one);
      if (one->call->function == Function::MPI_Comm_create && one->parts != nullptr) groups.push_back(one);
    }
    std::vector<ArgumentGroup> parties = PartiesBy(agreeing, [](const Made& one) { return ArgumentsHash(*one.call); });
    if (!parties.empty()) {
      Disagreement found = Between(view, comm, std::move(parties));
      CompareArguments(*found.parties[0].made.front(), *found.parties[1].made.front(), &found);
      found.everybody = calls.size() == comm.size;
      return found;
    }
    if (std::optional<Disagreement> found = CompareGroups(view, comm, groups)) return found;
  }
  return std::nullopt;
}

// Tags, by how often the same processes have made such a call.

bool IsInside(const Made& made) { return made.call->returned_ns == 0; }
bool Failed(const Made& made) { return made.call->result != format::kNoResult && made.call->result != 0; }

// Two threads may make such calls party by party, and a call that failed was counted.
bool Countable(const View& view, const std::vector<const Made*>& calls) {
  return std::all_of(calls.begin(), calls.end(), [&](const Made* made) {
    return !Failed(*made) && made->call->bytes != 0 && OneThread(view.process(*made->member));
  });
}

bool OncePerRank(const std::vector<const Made*>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i)
    for (std::size_t j = i + 1; j < calls.size(); ++j)
      if (calls[i]->member->node == calls[j]->member->node) return false;
  return true;
}

Argued TagOf(const Made& made) {
  const std::map<Argument, Argued> arguments = ArgumentsOf(made.parts);
  const auto tag = arguments.find(Argument::kTag);
  return tag == arguments.end() ? Argued{} : tag->second;
}

std::optional<Disagreement> CompareTags(const View& view, const CommView& comm, const std::vector<const Made*>& calls) {
  if (!Countable(view, calls) || !OncePerRank(calls)) return std::nullopt;
  std::vector<ArgumentGroup> parties = PartiesBy(calls, TagOf);
  if (parties.empty()) return std::nullopt;
  Disagreement found = Between(view, comm, std::move(parties));
  found.text = "tag " + ArgumentText(Argument::kTag, TagOf(*found.parties[1].made.front())) + " instead of " +
               ArgumentText(Argument::kTag, TagOf(*found.parties[0].made.front()));
  const std::size_t group = GroupOf(*calls.front()->parts).size();
  found.everybody = group == 0 || calls.size() == group;
  return found;
}

// Two ranks that each wait for the other one with another group.
std::optional<Disagreement> CrossedGroups(const View& view, const CommView& comm,
                                          const std::vector<const Made*>& calls) {
  const auto has = [](const Values& group, const Made& made) {
    return std::find(group.begin(), group.end(), std::uint64_t{made.member->comm->rank}) != group.end();
  };
  std::vector<const Made*> open;
  for (const Made* made : calls)
    if (IsInside(*made) && made->parts != nullptr && OneThread(view.process(*made->member)) &&
        view.process(*made->member).box->first_slot == 0)
      open.push_back(made);
  // One that has been in such a call of that group often enough has done its part there.
  const auto came = [&](const Made& other, const Made& wanted) {
    return std::any_of(calls.begin(), calls.end(), [&](const Made* one) {
      return one->member == other.member && one->call->bytes == wanted.call->bytes && one->parts != nullptr &&
             GroupOf(*one->parts) == GroupOf(*wanted.parts);
    });
  };
  for (const Made* one : open) {
    const Values group = GroupOf(*one->parts);
    std::vector<const Made*> members;
    for (const Made* other : open) {
      const Values others = GroupOf(*other->parts);
      if (other == one || others == group ||
          (has(group, *other) && has(others, *one) && !came(*other, *one) && !came(*one, *other)))
        members.push_back(other);
    }
    if (std::optional<Disagreement> found = OtherGroups(view, comm, members)) return found;
  }
  return std::nullopt;
}

std::optional<Disagreement> FirstOfGroups(const View& view, const CommView& comm, const std::vector<Made>& made) {
  std::map<std::pair<Values, std::uint64_t>, std::vector<const Made*>> uses;
  std::vector<const Made*> all;
  for (const Made& one : made) {
    if (one.call->function != Function::MPI_Comm_create_group) continue;
    if (Failed(one)) return std::nullopt;
    all.push_back(&one);
    if (one.parts != nullptr) uses[{GroupOf(*one.parts), one.call->bytes}].push_back(&one);
  }
  std::optional<Disagreement> first;
  for (const auto& [use, calls] : uses) {
    std::optional<Disagreement> found = CompareTags(view, comm, calls);
    if (found && (!first || found->began_ns < first->began_ns)) first = std::move(found);
  }
  return first ? first : CrossedGroups(view, comm, all);
}

struct OfComm {
  const CommView* comm = nullptr;
  std::vector<Made> made;
};

std::vector<Disagreement> OfLeaders(const View& view, const std::vector<OfComm>& comms) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::pair<const CommView*, std::vector<const Made*>>> pairs;
  for (const OfComm& of : comms)
    for (const Made& made : of.made) {
      if (made.call->function != Function::MPI_Intercomm_create || made.parts == nullptr) continue;
      for (const format::Part& part : made.parts->sends) {
        if (static_cast<Argument>(part.dtype) != Argument::kLeaders) continue;
        auto& pair = pairs[{part.bytes, made.call->bytes}];
        pair.first = of.comm;
        pair.second.push_back(&made);
      }
    }
  std::vector<Disagreement> all;
  for (const auto& [key, pair] : pairs)
    if (pair.second.size() == 2)
      if (std::optional<Disagreement> found = CompareTags(view, *pair.first, pair.second))
        all.push_back(std::move(*found));
  return all;
}

// Findings.

std::vector<int> RanksOf(const View& view, const ArgumentGroup& party) {
  std::vector<int> ranks;
  for (const Made* made : party.made) ranks.push_back(view.nodes[static_cast<std::size_t>(made->member->node)].rank);
  return SortedUnique(std::move(ranks));
}

Finding Explain(const View& view, const Disagreement& found) {
  const CommView& comm = *found.comm;
  const ArgumentGroup& usual = found.parties[0];
  const ArgumentGroup& odd = found.parties[1];
  const bool tie = usual.made.size() == odd.made.size();
  Finding finding;
  finding.kind = Kind::kArgumentMismatch;
  std::vector<int> culprits;
  bool one_thread = true;
  for (std::size_t i = 0; i < found.parties.size(); ++i) {
    for (const Made* made : found.parties[i].made) one_thread = one_thread && OneThread(view.process(*made->member));
    if (i == 0 && !tie) continue;
    for (const int rank : RanksOf(view, found.parties[i])) culprits.push_back(rank);
  }
  std::vector<std::size_t> votes;
  for (const ArgumentGroup& party : found.parties) votes.push_back(party.made.size());
  const bool decided = found.everybody || MajorityIsFinal(std::move(votes), comm.size);
  finding.certainty = found.firm && one_thread && decided ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, SortedUnique(std::move(culprits)), &finding);
  for (const int rank : comm.job_ranks)
    if (rank >= 0 && !std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank))
      finding.victims.push_back(rank);
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.communicator = DescribeComm(comm);
  finding.began_at_ns = ToRealtime(view, found.began_ns);
  finding.unsettled = !found.everybody;
  const std::string op(functions::OpName(odd.made.front()->call->function));
  finding.summary = fmt::format("{} called {} on {} with {} as on {}{}.", Capital(Ranks(RanksOf(view, odd))), op,
                                CommText(comm), found.text, Ranks(RanksOf(view, usual)), tie ? kTie : "");
  for (const ArgumentGroup& party : found.parties) {
    const Made& first = *party.made.front();
    CallSummary summary = DescribeCall(view, comm, *first.member, first.call->position, first.call);
    summary.ranks = RanksOf(view, party);
    summary.count.reset();
    summary.state = IsInside(first) ? CallState::kEntered : CallState::kReturned;
    finding.calls.push_back(std::move(summary));
    if (first.call->site != 0)
      finding.evidence.push_back(Ranks(RanksOf(view, party)) + ": called from " +
                                 SiteText(view, view.process(*first.member), first.call->site));
  }
  if (!found.firm) finding.evidence.emplace_back("the MPI in use may ignore the difference; another one may not");
  finding.next_steps = {
      "compare how these ranks compute the arguments: all ranks that make a communicator together must pass the same "
      "ones"};
  return finding;
}

}  // namespace

std::vector<Finding> FindArgumentsOfCreations(const Facts& facts) {
  const View& view = facts.view;
  const std::vector<Mismatch>& mismatches = facts.mismatches;
  WaitGraph* const graph = &facts.graph;
  std::vector<OfComm> comms;
  std::vector<Disagreement> all;
  const Creations creations = CreationsOf(view);
  for (const CommView& comm : view.comms)
    if (comm.comparable && SpeaksMpi(comm)) comms.push_back({&comm, Gather(view, comm, creations)});
  for (const OfComm& of : comms) {
    const auto c = of.comm - view.comms.data();
    const auto earlier = std::find_if(mismatches.begin(), mismatches.end(),
                                      [&](const Mismatch& mismatch) { return mismatch.comm == c; });
    for (auto find : {FirstOfAll, FirstOfGroups}) {
      std::optional<Disagreement> found = find(view, *of.comm, of.made);
      const bool follows = found && earlier != mismatches.end() && earlier->difference.began_ns <= found->began_ns;
      if (found && !follows) all.push_back(std::move(*found));
    }
  }
  for (Disagreement& found : OfLeaders(view, comms)) all.push_back(std::move(found));
  std::vector<Finding> findings;
  for (const Disagreement& found : all) {
    findings.push_back(Explain(view, found));
    for (std::size_t i = 1; i < found.parties.size(); ++i)
      for (const Made* made : found.parties[i].made) graph->blocked[made->member->node] = 1;
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(a.certainty != Certainty::kCertain, a.began_at_ns) <
           std::tuple(b.certainty != Certainty::kCertain, b.began_at_ns);
  });
  return findings;
}

}  // namespace ncclwatch::diagnosis
