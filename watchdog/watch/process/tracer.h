// Who may read this process's stacks from outside.
#pragma once

#include <cstdint>

namespace ncclwatch::watch {

// Lets the process and its descendants (the stacks program that a leader starts is one) attach to this process, where
// Yama refuses it to all but ancestors (/proc/sys/kernel/yama/ptrace_scope 1). Elsewhere nothing is changed. Only
// where NCCLWATCH_PTRACE=on says so: it replaces a permission that the host has given to somebody else, since there is
// room for one. Open MPI's vader and UCX have put "anybody" there, and their copies between processes (CMA) fail after.
void AllowTracing(std::int32_t pid);

}  // namespace ncclwatch::watch
