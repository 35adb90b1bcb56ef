// Step 5: what the explanations of the single kinds share. Each explain_*.cc turns one family of causes into findings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "watchdog/diagnosis/align.h"
#include "watchdog/diagnosis/finding.h"
#include "watchdog/diagnosis/view.h"
#include "watchdog/diagnosis/waits.h"

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
std::string CallText(const reader::Call& call);  // "AllReduce of 4096 float32 (sum)"
std::string CallText(const CallSummary& call);
std::string CommText(const CommView& comm);  // "communicator 8f3c09d2a1b45e77 (4 ranks)"
std::string SiteText(const View& view, const Process& process, std::uint64_t site);  // "train+0x1234"
std::string ProcessText(const View& view, const Process& process);                   // "node7, pid 4711"
bool AsksInVain(const reader::Call& call);                         // a loop of tests or probes that goes on
std::string WhereText(const View& view, const Node& node);         // its last call, how long ago, from where
std::string_view SourceText(const View& view);                     // what tells of a process: "black box", "dump"
std::string CoverageText(const View& view, const CommView& comm);  // empty if all its members are seen

// Of so many each that say one thing or another, which of these most say: those who have said nothing yet do not turn
// it.
bool CannotTurn(std::vector<std::size_t> spoke, std::size_t all);
// Certainty that time alone gives; none: not worth a word yet.
std::optional<Certainty> ByTime(const View& view, std::int64_t stalled_ns);
std::int64_t ToRealtime(const View& view, std::int64_t ns);
std::vector<int> RanksOf(const View& view, const std::vector<int>& nodes);
std::vector<int> RanksOf(const View& view, const std::vector<const Member*>& members);  // of those that are known
void AddCulprits(const View& view, std::vector<int> ranks, Finding* finding);
// The victims: everyone upstream of the given nodes who is not a culprit.
void AddVictims(const View& view, const WaitGraph& graph, const std::vector<int>& nodes, Finding* finding);

struct Mismatch {
  int comm = -1;
  Difference difference;
  Finding finding;
};
std::vector<Mismatch> FindMismatches(const View& view);
// Sends and receives that meet and differ in size; their ranks count as blocked.
std::vector<Finding> FindMessageMismatches(const View& view, WaitGraph* graph);
// Likewise of MPI, where the basic types count too.
std::vector<Finding> FindMessageMismatchesOfMpi(const View& view, WaitGraph* graph);
// Of MPI: what ranks send one another in one collective, and what they expect of one another, before the first mismatch
// of their communicator.
std::vector<Finding> FindAmountMismatches(const View& view, const std::vector<Mismatch>& mismatches);
// Of MPI: communicators made or freed in another order, or by some ranks alone; likewise.
std::vector<Finding> FindCreationMismatches(const View& view, const std::vector<Mismatch>& mismatches,
                                            WaitGraph* graph);
// ... with arguments in which their ranks differ.
std::vector<Finding> FindArgumentsOfCreations(const View& view, const std::vector<Mismatch>& mismatches,
                                              WaitGraph* graph);
std::vector<Finding> FindDeaths(const View& view, const WaitGraph& graph);
// Of MPI: ranks that ended without MPI_Finalize, and that no other finding names.
std::vector<Finding> FindEndsWithoutFinalize(const View& view, const std::vector<Finding>& others);
std::vector<Finding> FindInitializationHangs(const View& view, const WaitGraph& graph);
// Of MPI: what single processes do wrong whatever the others do.
std::vector<Finding> FindMisuses(const View& view);
// ... what reaches past the end of another rank's memory in a window.
std::vector<Finding> FindAccessesOutOfBounds(const View& view);
// ... and threads of one that are inside MPI at once.
std::vector<Finding> FindThreadsAtOnce(const View& view);
// Of MPI: accesses to the same memory of a window that nothing orders.
std::vector<Finding> FindEpochConflicts(const View& view, const WaitGraph& graph);
// What happened to others before the first death, if that is what it followed from.
std::vector<Finding> FindErrorsBefore(const View& view, const WaitGraph& graph, const Finding& death);
// A communicator that NCCL has called broken on one rank, while all its ranks are in the same collective.
std::vector<Finding> FindErrors(const View& view, const WaitGraph& graph);
// Living suspects: missing_participant, frozen_process, library_error, out_of_memory, a message without its partner.
std::vector<Finding> FindStalls(const View& view, const WaitGraph& graph);
// All that are seen wait for ranks that nobody sees.
std::vector<Finding> FindUnseen(const View& view, const WaitGraph& graph);
// Calls that all have launched, and no GPU gets through: device_stall, transport_stall.
std::vector<Finding> FindStuckCalls(const View& view, const WaitGraph& graph);
// Of MPI: ranks in calls that none of the others will ever end, and messages that pass one another by.
std::vector<Finding> FindDeadlocksOfMpi(const View& view, const WaitGraph& graph);
std::vector<Finding> FindDeadlocks(const View& view, const WaitGraph& graph);
// Of MPI, once all have called MPI_Finalize: receives from anybody whose outcome was chance.
std::vector<Finding> FindMessageRaces(const View& view);
// ... collectives that some ranks never called, though nobody waits for them.
std::vector<Finding> FindUnevenCollectives(const View& view);
// ... and messages that nobody has received.
std::vector<Finding> FindLeftOverMessages(const View& view);
// message_race in place of a standstill that comes of one; where that is not sure, it stands in the evidence.
void ExplainByRaces(const View& view, std::vector<Finding>* findings);
// step_mismatch in place of a deadlock or a missing participant that one rank's departure from its own steps explains.
void ExplainBySteps(const View& view, const WaitGraph& graph, std::vector<Finding>* findings);

}  // namespace ncclwatch::diagnosis
