// Which communicator an MPI call is on.
#pragma once

#include <string>

#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::analyzer::attach {

inline constexpr char kWorld[] = "MPI_COMM_WORLD";

// By the only communicator to which registers lead that are known in the frame of the call: "MPI_COMM_WORLD", or a
// name. Open MPI names the others itself ("MPI COMMUNICATOR 3 DUP FROM 0"). Empty: not known.
std::string CommunicatorOf(int pid, const stacks::Frame& call);

}  // namespace ncclwatch::analyzer::attach
