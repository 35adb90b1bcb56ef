// A launcher for the ranks of one program on this machine, with the variables that torchrun sets.
#pragma once

#include <absl/time/time.h>

#include <string>
#include <vector>

namespace ncclwatch::analyzer {

// Waits for all ranks: one that dies leaves the others waiting, as under srun. They end with this process, which ends
// after `at_most`. Returns the status of the first rank that failed, 128 + n for signal n.
int StartRanks(const std::vector<std::string>& command, int ranks, absl::Duration at_most);

}  // namespace ncclwatch::analyzer
