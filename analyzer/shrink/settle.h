// A recorded job as a program that makes its calls would leave it: nothing stands still only because the recorded job
// did.
#pragma once

#include <string>

#include "analyzer/edit/job.h"
#include "core/model/finding.h"

namespace ncclwatch::analyzer {

// Only culprits of a death, an exit or a standstill have ended: whatever became of the others came of that. The GPUs
// finish what they are given, except that in a device_stall what held a stream up still does. A receive that took any
// message asks for the one that it got.
void Settle(const diagnosis::Finding& cause, Job* job);

// Calls in which a process was when it ended, or was stopped: the program ends it before them.
CallSet UnfinishedOfEnded(const Job& job);

// Calls that never returned and of which the model does not know when they would.
CallSet Unjudged(const Job& job);
std::string TextOf(const Job& job, const CallSet& calls);  // "Probe (rank 3, seq 17)", the first one

// Waits that never returned and whose requests have been left out: the program makes no such call.
Job WithoutIdleWaits(Job job);

// The rank has made its calls and ends: with status 0, or in MPI_Finalize.
Job WithLeaving(Job job, int rank);

bool SpeaksMpi(const Job& job);
bool SpeaksNccl(const Job& job);

}  // namespace ncclwatch::analyzer
