// Where a process means to meet the other ranks.
#pragma once

#include <string>

namespace ncclwatch::analyzer::attach {

// "WORLD_SIZE=4, MASTER_ADDR=node7, MASTER_PORT=29500" of its environment as it is now: /proc shows the one that it was
// started with. Empty: it has none of them, or it cannot be read.
std::string RendezvousOf(int pid);

}  // namespace ncclwatch::analyzer::attach
