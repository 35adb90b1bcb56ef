// order_mismatch, argument_mismatch: a proof, not a guess. It holds whether or not anything hangs.
#include <algorithm>

#include "ncclwatch/functions/types.h"
#include "watchdog/diagnosis/explain.h"
#include "watchdog/diagnosis/text.h"

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

std::vector<int> Culprits(const View& view, const CommView& comm, const Difference& difference) {
  std::vector<int> culprits;
  for (std::size_t i = difference.tie ? 0 : 1; i < difference.sides.size(); ++i) {
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
  return Join(parts, ", ");
}

std::string Summary(const View& view, const CommView& comm, const Difference& difference) {
  const Side& usual = difference.sides[0];
  const Side& odd = difference.sides[1];
  std::string text = Capital(Ranks(JobRanks(view, comm, odd))) + " called " + CallText(*odd.call) + " where " +
                     Ranks(JobRanks(view, comm, usual)) + " called " + CallText(*usual.call) + ": collective " +
                     std::to_string(difference.position) + " of " + CommText(comm);
  if (!difference.other_operation) text += " has " + WhatDiffers(*odd.call, *usual.call);
  if (difference.tie) text += "; as many ranks say the one as the other, so either side may be wrong";
  return text + ".";
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

void AddEvidence(const View& view, const CommView& comm, const Difference& difference, Finding* finding) {
  for (const Side& side : difference.sides) {
    std::string line = Ranks(JobRanks(view, comm, side)) + ": " + CallText(*side.call);
    if (side.call->site != 0) {
      const Process& process = view.process(comm.members[side.members.front()]);
      line += ", called from " + SiteText(view, process, side.call->site) + " in " + ProcessText(view, process);
    }
    finding->evidence.push_back(std::move(line));
  }
  const Member& first = comm.members[difference.sides[0].members.front()];
  if (difference.surely_first && difference.position > 0 && first.At(difference.position - 1) != nullptr) {
    finding->evidence.push_back("the calls before position " + std::to_string(difference.position) +
                                " agree as far as the " + std::string(SourceText(view)) +
                                (SourceText(view) == "dump" ? "s" : "es") + " reach back");
  }
  if (!difference.surely_first)
    finding->evidence.push_back("the calls right before are lost: the ranks may have parted earlier, in another way");
  if (difference.zero_count) {
    finding->evidence.push_back(
        "NCCL skips a call with count 0 without a word, so its other ranks wait, or are paired with the next call");
  }
  const std::string coverage = CoverageText(view, comm);
  if (!coverage.empty()) finding->evidence.push_back(coverage);
}

void AddNextSteps(const View& view, const Difference& difference, const Finding& found, Finding* finding) {
  const std::string who = found.culprits.empty() ? "the odd rank" : Ranks(found.culprits);
  if (difference.other_operation) {
    finding->next_steps.push_back("compare what " + who +
                                  " did before this call with the others: a branch on the rank, "
                                  "an uneven number of batches, or a collective that only some ranks make");
  } else {
    finding->next_steps.push_back("look at how " + who +
                                  " came to these arguments: bucket or batch size, dtype of the "
                                  "tensor, root, all derived from something that differs by rank");
  }
  if (SourceText(view) == "dump") return;  // its call sites are lines already
  finding->next_steps.push_back(
      "the line of a call site module+0x1234 above: `addr2line -e MODULE 0x1234`, or a Python stack at that call");
}

Finding Explain(const View& view, const CommView& comm, const Difference& difference) {
  Finding finding;
  finding.kind = difference.other_operation ? Kind::kOrderMismatch : Kind::kArgumentMismatch;
  // Of calls that are lost nobody knows whether they had parted already, and how.
  finding.certainty = difference.surely_first ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, Culprits(view, comm, difference), &finding);
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
  finding.summary = Summary(view, comm, difference);
  AddEvidence(view, comm, difference, &finding);
  AddNextSteps(view, difference, finding, &finding);
  return finding;
}

}  // namespace

std::vector<Mismatch> FindMismatches(const View& view) {
  std::vector<Mismatch> found;
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    std::optional<Difference> difference = FirstDifference(view, view.comms[c]);
    if (!difference) continue;
    Mismatch mismatch;
    mismatch.comm = static_cast<int>(c);
    mismatch.finding = Explain(view, view.comms[c], *difference);
    mismatch.difference = std::move(*difference);
    found.push_back(std::move(mismatch));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Mismatch& a, const Mismatch& b) { return a.difference.began_ns < b.difference.began_ns; });
  return found;
}

}  // namespace ncclwatch::diagnosis
