// Step 5: what the explanations of the single kinds share. Each explain_*.cc turns one family of causes into findings.
#pragma once

#include <vector>

#include "watchdog/diagnosis/align.h"
#include "watchdog/diagnosis/certainty.h"
#include "watchdog/diagnosis/describe.h"
#include "watchdog/diagnosis/finding.h"
#include "watchdog/diagnosis/view.h"
#include "watchdog/diagnosis/waits.h"

namespace ncclwatch::diagnosis {

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
