// The view in the terms of findings: culprits, victims, calls and communicators, and what they are called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model/finding.h"
#include "core/view/view.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// Values and names for findings.
Culprit DescribeCulprit(const View& view, int rank);
CommunicatorName DescribeComm(const CommView& comm);
// All members of the communicator at one position, those that did the same in one summary, largest first.
std::vector<CallSummary> DescribeCalls(const View& view, const CommView& comm, std::uint64_t position);
CallSummary DescribeCall(const View& view, const CommView& comm, const Member& member, std::uint64_t position,
                         const reader::Call* call);
// Adds its ranks to those that did the same.
void Merge(CallSummary call, std::vector<CallSummary>* calls);
CallState StateAt(const Member& member, std::uint64_t position, const reader::Call* call);

// Text.
// Ends a sentence about two sides of equal size.
inline constexpr char kTie[] = "; as many ranks made one call as the other, so either side may be wrong";
std::string DataText(const reader::Call& call);  // "4096 float32"
std::string CallText(const reader::Call& call);  // "AllReduce of 4096 float32 (sum)"
// ... " = DDP bucket 0 (0.weight, 0.bias)", where the program has said so.
std::string CallText(const reader::BoxImage& box, const reader::Call& call);
std::string CommText(const CommView& comm);
// "collective 79", "one of the collectives 76 to 79"
std::string CollectiveText(std::uint64_t first, std::uint64_t last);
// [first, at] are equal calls, and one of [first, last] was left out, or made too often: `at` is the first that shows
// it.
std::string MixedText(std::uint64_t first, std::uint64_t last, std::uint64_t at);
std::string SiteText(const View& view, const Process& process, std::uint64_t site);  // "train+0x1234"
std::string ProcessText(const View& view, const Process& process);                   // "node7, pid 4711"
bool IsPolling(const reader::Call& call);                   // a loop of tests or probes that goes on
std::string WhereText(const View& view, const Node& node);  // its last call, how long ago, from where
std::string_view SourceText(const View& view);              // what tells of a process: "black box", "dump", "trace"
std::string CoverageText(const View& view, const CommView& comm);  // empty if all its members are seen

std::int64_t ToRealtime(const View& view, std::int64_t ns);
std::vector<int> RanksOf(const View& view, const std::vector<int>& nodes);
std::vector<int> RanksOf(const View& view, const std::vector<const Member*>& members);  // of those that are known
void AddCulprits(const View& view, std::vector<int> ranks, Finding* finding);
// The victims: everyone upstream of the given nodes who is not a culprit.
void AddVictims(const View& view, const WaitGraph& graph, const std::vector<int>& nodes, Finding* finding);

}  // namespace ncclwatch::diagnosis
