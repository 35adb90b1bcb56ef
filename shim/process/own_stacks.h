// The process's own stacks from inside, for where nobody may look at it from outside (ptrace refused by seccomp or
// Yama): sleeping threads by what the kernel says of itself, without signals. A thread that runs is not read, since it
// would have to be interrupted; nor are Python's frames.
#pragma once

#include <string>

namespace ncclwatch::shim {

// A sample (format/sample.h), which the `ncclwatch` command unwinds. In a thread that the host does not need, one at a
// time. Empty if nothing is watched.
std::string SampleOwnStacks();

}  // namespace ncclwatch::shim
