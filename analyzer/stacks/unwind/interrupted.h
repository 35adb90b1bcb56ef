// Which system calls a ptrace stop may break off, and what can be done about it.
//
// The kernel ends an interrupted call in one of two ways. Most return a code below 512 that user space never sees:
// where no handler runs the call begins anew, with the time that is left (futex, poll, nanosleep, read of a pipe,
// wait4). Some return EINTR at once (signal(7), "Interruption of system calls and library functions by stop signals"):
// epoll_wait, semop, sigtimedwait, and those on sockets with a timeout. These must not be stopped while they wait.
#pragma once

#include <cstdint>

namespace ncclwatch::stacks {

// Kernel-internal (include/linux/errno.h, ERESTARTNOHAND): begin the call anew if no handler was run, else EINTR.
inline constexpr std::int64_t kRestartUnlessHandled = -514;

// Calls that end with EINTR only before they had any effect: they may begin anew.
bool MayBeginAnew(long call);

// Calls that go on by themselves after a stop, with the time that they have left. For reads and writes `on_socket`: one
// with a timeout does not.
bool GoesOnByItself(long call, bool on_socket);

}  // namespace ncclwatch::stacks
