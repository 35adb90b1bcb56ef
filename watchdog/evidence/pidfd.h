// pidfd calls by number: glibc wraps them since 2.36 only, and the exit information is newer than any header here.
#pragma once

#include <cstdint>
#include <optional>

namespace ncclwatch::evidence {

int OpenPidfd(std::int32_t pid);  // -1 and errno as the system call; kept out of the low numbers
int SignalPidfd(int pidfd, int signal);

// The wait status of a process that has been reaped (Linux 6.15+); none on older kernels and before it is reaped.
std::optional<std::int32_t> WaitStatusOf(int pidfd);

}  // namespace ncclwatch::evidence
