// order_mismatch, argument_mismatch: a proof, not a guess. It holds whether or not anything hangs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/calls/mpi_types.h"
#include "core/compare/departure.h"
#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/steps/steps.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

std::vector<int> JobRanks(const View& view, const CommView& comm, const Side& side) {
  std::vector<int> ranks;
  for (const int m : side.members) {
    const int node = comm.members[m].node;
    ranks.push_back(node >= 0 ? view.nodes[node].rank : -1);
  }
  return SortedUnique(std::move(ranks));
}

// Who is wrong, and what tells.
struct Blame {
  std::size_t usual = 0;         // the side that is right, or the first of a tie
  std::vector<std::size_t> odd;  // the others, the largest first
  bool by_history = false;       // as many say the one as the other, and one side goes on as before
  bool by_place = false;         // ... from the place of the call
  bool open = false;             // as many say the one as the other, and nothing decides
  std::optional<Departure> departure;
  std::vector<Alignment> alignments;  // of the first odd side
  std::optional<InRun> place;         // positions: one of these was left out, or is extra
};

bool IsShift(const Alignment& alignment) {
  return alignment.change == Change::kExtra || alignment.change == Change::kLeftOut;
}

// The majority is right also where it departs from what was before: when all others evaluate, the one that goes on
// training has missed something. Where there is none the side that goes on as before is, most likely: it may be the one
// that should have done something new.
Blame BlameFor(const View& view, const CommView& comm, const Difference& difference) {
  Blame blame;
  blame.departure = DepartureAt(view, comm, difference);
  blame.open = difference.tie;
  if (difference.tie && difference.everybody_arrived && blame.departure) {
    const Side& usual = difference.sides[blame.departure->goes_on];
    blame.by_history = true;
    for (std::size_t i = 0; i < difference.sides.size(); ++i) {
      if (i != blame.departure->goes_on && HaveParted(view, comm, difference, usual, difference.sides[i]))
        blame.by_history = false;
    }
    if (blame.by_history) blame.usual = blame.departure->goes_on;
    blame.open = !blame.by_history;
  }
  if (blame.open && difference.everybody_arrived && !difference.other_operation)
    if (const auto goes_on = GoesOnAtItsPlace(view, comm, difference)) {
      blame.by_history = blame.by_place = true;
      blame.usual = *goes_on;
      blame.open = false;
    }
  for (std::size_t i = 0; i < difference.sides.size(); ++i) {
    if (i != blame.usual) blame.odd.push_back(i);
  }
  if (difference.sides.size() != 2) return blame;
  const Side& usual = difference.sides[blame.usual];
  const Side& odd = difference.sides[blame.odd.front()];
  blame.alignments = AlignSides(view, comm, difference, usual, odd);
  if (blame.alignments.size() != 1 || blame.open) return blame;
  const Alignment& alignment = blame.alignments.front();
  if (alignment.calls == 1 && IsShift(alignment))
    blame.place = PlaceOfChange(view, comm, difference, usual, odd, alignment);
  return blame;
}

std::vector<int> Culprits(const View& view, const CommView& comm, const Difference& difference, const Blame& blame) {
  std::vector<int> culprits;
  for (std::size_t i = 0; i < difference.sides.size(); ++i) {
    if (i == blame.usual && !blame.open) continue;
    for (const int rank : JobRanks(view, comm, difference.sides[i])) culprits.push_back(rank);
  }
  std::erase(culprits, -1);
  return culprits;
}

// "count 4097 instead of 4096": what the two calls of one operation differ in.
std::string WhatDiffers(const Call& odd, const Call& usual) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view what, const std::string& a, const std::string& b) {
    if (a != b) parts.push_back(std::string(what) + " " + a + " instead of " + b);
  };
  add("count", std::to_string(odd.count), std::to_string(usual.count));
  add("datatype", std::string(functions::DatatypeName(odd.dtype)), std::string(functions::DatatypeName(usual.dtype)));
  if (odd.reduction != usual.reduction) add("reduction", ReductionName(odd.reduction), ReductionName(usual.reduction));
  add("root", std::to_string(odd.root), std::to_string(usual.root));
  // MPI alone: of a gather the call tells what there is room for, of others not the counts for single ranks, and of a
  // derived type not what it is made of.
  if (parts.empty())
    return "different elements: in what is sent, in the counts for single ranks, or inside a derived datatype";
  return Join(parts, ", ");
}

// "rank 3 made one extra call there": how the odd side came to differ, after "rank 3 ".
std::string ChangeText(const Alignment& alignment, const Call& odd, const Call& usual, const std::string& place) {
  const bool one = alignment.calls == 1;
  const std::string these = one ? "" : Plural(alignment.calls, "call");
  switch (alignment.change) {
    case Change::kExtra:
      return "made " + (one ? "one extra " + CallText(odd) : "an extra " + std::to_string(alignment.calls) + " calls") +
             (place.empty() ? " there" : place) + ", and everything after it is shifted by " +
             (one ? "one" : std::to_string(alignment.calls));
    case Change::kLeftOut:
      return "left out " + (one ? CallText(usual) + place : these) + ", and everything after it is shifted by " +
             (one ? "one" : std::to_string(alignment.calls));
    case Change::kReplaced:
      return "made " + (one ? "this one call" : "these " + these) + " differently, and what follows agrees again";
    case Change::kReordered: return "made " + these + " in a different order, and what follows agrees again";
  }
  return {};
}

// Where it is open who is wrong the same can be said of either side.
std::string ChangesText(const View& view, const CommView& comm, const Difference& difference, const Blame& blame) {
  const Side& usual = difference.sides[blame.usual];
  const Side& odd = difference.sides[blame.odd.front()];
  const bool vague = blame.place && blame.place->first < difference.position;
  const std::string place = vague ? ", " + CollectiveText(blame.place->first, blame.place->last) : "";
  std::vector<std::string> ways;
  for (const Alignment& alignment : blame.alignments) {
    ways.push_back(Ranks(JobRanks(view, comm, odd)) + " " + ChangeText(alignment, *odd.call, *usual.call, place));
    if (!blame.open || !IsShift(alignment)) continue;
    Alignment other = alignment;
    other.change = alignment.change == Change::kExtra ? Change::kLeftOut : Change::kExtra;
    ways.push_back(Ranks(JobRanks(view, comm, usual)) + " " + ChangeText(other, *usual.call, *odd.call, ""));
  }
  return (ways.size() > 1 ? "either " : "") + Join(ways, ", or ");
}

// Why the two are different calls of the program rather than one with different arguments; empty: nothing says so.
std::string WhyOtherCalls(const View& view, const CommView& comm, const Difference& difference, const Blame& blame) {
  const Side& usual = difference.sides[blame.usual];
  const Side& odd = difference.sides[blame.odd.front()];
  const bool shifted =
      !blame.alignments.empty() && std::all_of(blame.alignments.begin(), blame.alignments.end(), IsShift);
  if (shifted) return "the calls after this one agree again, shifted";
  if (WasMadeBefore(view, comm, difference, odd))
    return fmt::format("{} has been made on this communicator before", CallText(*odd.call));
  const auto place = [&](const Side& side) {
    const std::uint64_t site = side.call->site;
    return site == 0 ? "" : SiteText(view, view.process(comm.members[side.members.front()]), site);
  };
  const std::string here = place(odd), there = place(usual);
  const bool named = !here.starts_with("0x") && !there.starts_with("0x") && !here.empty() && !there.empty();
  if (named && here != there) return "they were called from different places";
  const bool mpi = functions::IsMpi(odd.call->function);  // buffers of one element are usual there
  if (!mpi && std::min(odd.call->count, usual.call->count) == 1 && std::max(odd.call->count, usual.call->count) > 1)
    return "one is a single number, and the other is not";
  return "";
}

std::string SideText(const CommView& comm, const Side& side) {
  return CallText(*comm.members[side.members.front()].box, *side.call);
}

std::string Summary(const View& view, const CommView& comm, const Difference& difference, const Blame& blame) {
  const Side& usual = difference.sides[blame.usual];
  const Side& odd = difference.sides[blame.odd.front()];
  std::string text = Capital(Ranks(JobRanks(view, comm, odd))) + " called " + SideText(comm, odd) + " where " +
                     Ranks(JobRanks(view, comm, usual)) + " called " + SideText(comm, usual) + ": collective " +
                     std::to_string(difference.position) + " of " + CommText(comm);
  if (!difference.other_operation) text += " has " + WhatDiffers(*odd.call, *usual.call);
  if (blame.open) text += kTie;
  if (blame.by_history)
    text += fmt::format("; as many ranks made one call as the other, but only {} {} on as all did before",
                        Ranks(JobRanks(view, comm, usual)), JobRanks(view, comm, usual).size() == 1 ? "goes" : "go");
  const std::string changes = ChangesText(view, comm, difference, blame);
  return text + (changes.empty() ? "" : "; " + changes) + ".";
}

std::vector<CallSummary> Calls(const View& view, const CommView& comm, const Difference& difference) {
  if (!difference.zero_count) return DescribeCalls(view, comm, difference.position);
  std::vector<CallSummary> calls;
  for (const Side& side : difference.sides) {
    CallSummary call = DescribeCall(view, comm, comm.members[side.members.front()], difference.position, side.call);
    call.ranks = JobRanks(view, comm, side);
    calls.push_back(std::move(call));
  }
  return calls;
}

std::string Times(std::size_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

void AddDeparture(const View& view, const CommView& comm, const Difference& difference, const Blame& blame,
                  Finding* finding) {
  const Departure& departure = *blame.departure;
  const Side& goes_on = difference.sides[departure.goes_on];
  const std::string who = Ranks(JobRanks(view, comm, goes_on));
  std::string line = departure.period == 1 ? "the call before was followed by " + CallText(*goes_on.call)
                                           : "the " + std::to_string(departure.period) +
                                                 " calls before were followed by " + CallText(*goes_on.call);
  std::vector<int> others;
  for (const Side& side : difference.sides) {
    if (&side == &goes_on) continue;
    for (const int rank : JobRanks(view, comm, side)) others.push_back(rank);
  }
  others = SortedUnique(std::move(others));
  finding->evidence.push_back(fmt::format("{}, as on {}, {}, and never by what {} {} now", line, who,
                                          Times(departure.repeated), Ranks(others),
                                          others.size() == 1 ? "calls" : "call"));
  if (departure.new_site)
    finding->evidence.push_back(fmt::format("{} {} from a place that had made no call on this communicator before",
                                            Ranks(others), others.size() == 1 ? "calls" : "call"));
  if (departure.goes_on != blame.usual && !blame.open)
    finding->evidence.push_back(fmt::format("most ranks make a call here that is new to all; {} {} not make it",
                                            Ranks(finding->culprits), finding->culprits.size() == 1 ? "does" : "do"));
  if (blame.by_history)
    finding->evidence.push_back(fmt::format(
        "it is certain that the calls differ, but only likely who is wrong: {} may have missed something new", who));
}

// Among equal calls right before, which agree, one rank made one from a place that had made none, and the others theirs
// from another one: an extra call that NCCL has paired.
void AddPairedBefore(const View& view, const CommView& comm, const Difference& difference, const Blame& blame,
                     Finding* finding) {
  constexpr std::uint64_t kFarthest = 64;  // calls
  const Side& odd = difference.sides[blame.odd.front()];
  const Side& usual = difference.sides[blame.usual];
  const Member& own = comm.members[odd.members.front()];
  const Member& other = comm.members[usual.members.front()];
  if (odd.members.size() != 1 || blame.odd.size() != 1 || blame.place || own.node < 0) return;
  const History history = HistoryOf(view, view.nodes[static_cast<std::size_t>(own.node)]);
  const std::uint64_t farthest = difference.position - std::min(difference.position, kFarthest);
  for (std::uint64_t position = difference.position; position > farthest; --position) {
    const Call* const before = own.At(position - 1);
    const Call* const met = other.At(position - 1);
    if (!before || !met || before->site == 0 || FingerprintOf(*before) != FingerprintOf(*odd.call)) return;
    const auto from_there = [&](const Call* call) { return call->site == before->site; };
    const std::string here = SiteText(view, view.process(own), before->site);
    const std::string there = SiteText(view, view.process(other), met->site);
    if (here == there || std::count_if(history.calls.begin(), history.calls.end(), from_there) != 1) continue;
    finding->evidence.push_back(
        fmt::format("{} made collective {}, an equal call, from {}, where it had made none before; {} made theirs from "
                    "{}. NCCL has "
                    "paired them, so this may be the extra call",
                    Ranks(finding->culprits), before->position, here, Ranks(JobRanks(view, comm, usual)), there));
    return;
  }
}

void AddEvidence(const View& view, const CommView& comm, const Difference& difference, const Blame& blame,
                 Finding* finding) {
  for (const Side& side : difference.sides) {
    std::string line = Ranks(JobRanks(view, comm, side)) + ": " + CallText(*side.call);
    if (side.call->site != 0) {
      const Process& process = view.process(comm.members[side.members.front()]);
      line += ", called from " + SiteText(view, process, side.call->site) + " in " + ProcessText(view, process);
    }
    finding->evidence.push_back(std::move(line));
  }
  if (blame.departure) AddDeparture(view, comm, difference, blame, finding);
  if (blame.by_place)
    finding->evidence.push_back(fmt::format("from this place all have called {} each time before",
                                            CallText(*difference.sides[blame.usual].call)));
  if (blame.place && blame.place->first < difference.position)
    finding->evidence.push_back(MixedText(blame.place->first, blame.place->last, difference.position));
  AddPairedBefore(view, comm, difference, blame, finding);
  if (!blame.alignments.empty())
    finding->evidence.push_back(fmt::format("apart from that, the next {} of the two on this communicator are the same",
                                            Plural(blame.alignments.front().agree, "call")));
  const Member& first = comm.members[difference.sides[0].members.front()];
  if (difference.surely_first && difference.position > 0 && first.At(difference.position - 1) != nullptr) {
    finding->evidence.push_back(fmt::format("the calls before position {} agree as far as the {}{} reach back",
                                            difference.position, SourceText(view),
                                            SourceText(view) == "black box" ? "es" : "s"));
  }
  if (!difference.surely_first)
    finding->evidence.push_back(
        "the calls right before it are lost: the ranks may have diverged earlier, in another way");
  if (difference.zero_count) {
    finding->evidence.push_back(
        "NCCL silently skips a call with count 0, so the other ranks wait, or are paired with the next call");
  }
  const std::string coverage = CoverageText(view, comm);
  if (!coverage.empty()) finding->evidence.push_back(coverage);
}

void AddNextSteps(bool other_calls, Finding* finding) {
  const std::string who = finding->culprits.empty() ? "the odd rank" : Ranks(finding->culprits);
  if (other_calls) {
    finding->next_steps.push_back("compare what " + who +
                                  " did before this call with the others: a branch on the rank, "
                                  "an uneven number of batches, or a collective that only some ranks make");
  } else {
    finding->next_steps.push_back(
        fmt::format("look at how {} computed these arguments: bucket or batch size, dtype of the tensor and root may "
                    "derive from something that differs by rank",
                    who));
  }
}

// Names of one type, which no MPI tells apart.
bool OnlyByName(const Difference& difference) {
  const Call& first = *difference.sides.front().call;
  return functions::IsMpi(first.function) && !difference.other_operation &&
         std::all_of(difference.sides.begin() + 1, difference.sides.end(), [&](const auto& side) {
           const Call& other = *side.call;
           return other.dtype != first.dtype && other.count == first.count && other.root == first.root &&
                  other.reduction == first.reduction && first.count != 0 &&
                  AreAliases(first.dtype, first.bytes / first.count, other.dtype, other.bytes / other.count);
         });
}

// The chain of fingerprints over the first `calls` collectives.
std::optional<std::uint64_t> ChainOver(const Member& member, std::uint64_t calls) {
  if (calls == member.comm->entered) return member.comm->chain;
  const Call* last = member.At(calls - 1);
  return last == nullptr ? std::nullopt : std::optional(last->chain);
}

// How many are on each side, those too whose call is lost, or was not fetched from their node: an equal chain over all
// their calls means the same call there.
std::vector<std::size_t> VotesPerSide(const CommView& comm, const Difference& difference) {
  std::vector<std::size_t> votes;
  std::vector<bool> seen(comm.members.size());
  for (const Side& side : difference.sides) {
    votes.push_back(side.members.size());
    for (const int m : side.members) seen[static_cast<std::size_t>(m)] = true;
  }
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> side_of;  // entered, chain: most stand together
  for (std::size_t m = 0; m < comm.members.size(); ++m) {
    const reader::Communicator& unseen = *comm.members[m].comm;
    if (seen[m] || unseen.entered <= difference.position || unseen.chain == 0) continue;  // 0: was not told
    const auto [known, fresh] = side_of.try_emplace({unseen.entered, unseen.chain}, votes.size());
    for (std::size_t i = 0; fresh && i < difference.sides.size(); ++i) {
      const std::vector<int>& members = difference.sides[i].members;
      if (std::any_of(members.begin(), members.end(), [&](int other) {
            return ChainOver(comm.members[static_cast<std::size_t>(other)], unseen.entered) == unseen.chain;
          }))
        known->second = i;
    }
    if (known->second < votes.size()) ++votes[known->second];
  }
  return votes;
}

Finding Explain(const View& view, const CommView& comm, const Difference& difference) {
  Finding finding;
  finding.kind = difference.other_operation ? Kind::kOrderMismatch : Kind::kArgumentMismatch;
  const Blame blame = BlameFor(view, comm, difference);
  // Of calls that are lost nobody knows whether they had parted already, and how. And a name that only habit gives is
  // never certain, though that the calls differ is; nor are sides of which those who have not come, or died on their
  // way, could say which one is odd.
  const bool decided = !blame.by_history && MajorityIsFinal(VotesPerSide(comm, difference), comm.size);
  finding.certainty =
      difference.surely_first && decided && !OnlyByName(difference) ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, Culprits(view, comm, difference, blame), &finding);
  for (const int rank : comm.job_ranks) {
    if (rank >= 0 && !std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank)) {
      finding.victims.push_back(rank);
    }
  }
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.communicator = DescribeComm(comm);
  finding.position = difference.position;
  finding.calls = Calls(view, comm, difference);
  finding.began_at_ns = ToRealtime(view, difference.began_ns);
  finding.unsettled = !difference.everybody_arrived;
  finding.summary = Summary(view, comm, difference, blame);
  AddEvidence(view, comm, difference, blame, &finding);
  const std::string other_calls =
      difference.other_operation || blame.open ? "" : WhyOtherCalls(view, comm, difference, blame);
  if (!other_calls.empty())
    finding.evidence.push_back("most likely these are two calls of the program, not one with different arguments: " +
                               other_calls);
  AddNextSteps(difference.other_operation || !other_calls.empty(), &finding);
  return finding;
}

// Persistent collectives are made in one order by all, but each rank may start them in an order of its own: only those
// that were made as the same one (`tag`) belong together.
bool StartsApart(const Difference& difference) {
  const auto starts = [](const Side& side) { return (side.call->flags & format::kPersisting) != 0; };
  const auto numbered = [](const Side& side) {
    return (side.call->flags & format::kHasParts) == 0 && side.call->tag > 0;  // tag: else where its amounts are
  };
  const std::vector<Side>& sides = difference.sides;
  if (std::none_of(sides.begin(), sides.end(), starts)) return false;
  const auto same = [&](const Side& side) {
    return starts(side) && numbered(side) && side.call->tag == sides.front().call->tag;
  };
  return !std::all_of(sides.begin(), sides.end(), same);
}

// A type that is null or has been freed is told of as an invalid_argument: there is nothing to compare with.
bool HasUnknownType(const Difference& difference) {
  const auto knows_none = [](const Side& side) {
    return functions::IsMpi(side.call->function) && side.call->dtype == format::kNoType;
  };
  const auto& sides = difference.sides;
  return !difference.other_operation && std::any_of(sides.begin(), sides.end(), knows_none) &&
         !std::all_of(sides.begin(), sides.end(), knows_none);
}

}  // namespace

std::vector<Finding> FindMismatches(const Facts& facts) {
  const View& view = facts.view;
  std::vector<Mismatch>& found = facts.mismatches;
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    std::optional<Difference> difference = FirstDifference(view, view.comms[c]);
    if (!difference || StartsApart(*difference) || HasUnknownType(*difference)) continue;
    Mismatch mismatch;
    mismatch.comm = static_cast<int>(c);
    mismatch.finding = Explain(view, view.comms[c], *difference);
    mismatch.difference = std::move(*difference);
    found.push_back(std::move(mismatch));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Mismatch& a, const Mismatch& b) { return a.difference.began_ns < b.difference.began_ns; });
  std::vector<Finding> findings;
  for (const Mismatch& mismatch : found) findings.push_back(mismatch.finding);
  return findings;
}

}  // namespace ncclwatch::diagnosis
