// What can be taken away from a job at once without making a fault of its own.
#pragma once

#include <vector>

#include "analyzer/edit/job.h"

namespace ncclwatch::analyzer {

using Unit = CallSet;

bool IsExchange(functions::Function function);  // MPI_Sendrecv and its like: two messages

// Calls that stand or fall together: a collective of all its members, a message at both its ends, both halves of an
// exchange, the beginning and end of a group. In order of time. Not what makes communicators, begins or ends MPI.
std::vector<Unit> CallUnits(const Job& job);

// Communicators, each with those that are made from it and all calls on them. Those that one split makes are one unit.
std::vector<Unit> CommunicatorUnits(const Job& job);

}  // namespace ncclwatch::analyzer
