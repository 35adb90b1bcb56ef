// Where a process as a whole is, in sentences.
#pragma once

#include <string>
#include <vector>

#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/process/descriptors.h"

namespace ncclwatch::stacks {

// Needs no permission and none of the process's locks: what can be said also of one that cannot be looked into. Of
// the threads their states. False if there is no such process.
bool ReadProcess(int pid, ProcessStacks* process);

// `process->state` and `process->figures`, from what was read of it.
void AddState(ProcessStacks* process);

// Its command line, cut. Unlike the above this needs the lock of the process's memory, and may wait for it.
std::string CommandOf(int pid);

// Why it cannot be read, as far as that can be found out; `error` of the attempt.
std::string WhyNotAllowed(int pid, int error);

}  // namespace ncclwatch::stacks
