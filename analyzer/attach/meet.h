// Roll calls of several nodes, joined at one of them.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/attach/roll_call.h"

namespace ncclwatch::analyzer::attach {

enum class Met {
  kAlone,   // nobody could be met; `why` says why
  kMember,  // told to the one at the meeting place, which prints the verdict
  kJoined   // this is the meeting place: *call and *job hold what the others have seen as well
};

// A launcher (srun, mpirun) has started this command as several tasks, which are to meet.
bool IsOneOfSeveral();
// ... more than one of them on this machine, and another one looks at it.
bool IsSpare();
// The job of Slurm's in which this command runs; empty: none.
std::string OwnSlurmJob();

// `named`: HOST:PORT; whoever has the address of HOST is the meeting place. If it is empty, the place is the first
// task's, as its launcher has it. Waits until all ranks have been called or all tasks have come, at most `wait_ns`.
// Those who meet prove the token of their job (docs/EXCHANGE.md).
Met Meet(const std::string& named, std::int64_t wait_ns, RunningJob* job, RollCall* call, std::string* why);

}  // namespace ncclwatch::analyzer::attach
