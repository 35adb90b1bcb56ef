// One write to standard error that cannot hurt the host. It does not wait for longer than it may, and raises no signal:
// SIGPIPE (nobody reads), SIGXFSZ (`ulimit -f`) and SIGTTOU (a job in the background, `stty tostop`) are blocked in
// this thread meanwhile, and one that the write has raised is taken back. Needs nothing of the C library.
#pragma once

#include <linux/time_types.h>
#include <poll.h>
#include <sys/syscall.h>

#include <cstddef>

namespace ncclwatch::descriptors {

// `system`: makes a system call, (number, a, b, c, d) -> its result, or an errno below 0. `bytes`: PIPE_BUF at most, so
// that a pipe with room takes all of it. Returns as write(2) does, by an errno below 0; -EAGAIN: there is no room.
template <typename System>
long WriteHarmless(System system, int fd, const char* data, std::size_t bytes, int patience_ms) {
  constexpr long kAgain = -11, kBlock = 0, kSetMask = 2, kSetBytes = 8;
  constexpr unsigned long kPipe = 13, kTerminalOutput = 22, kFileSize = 25;
  constexpr unsigned long kRaised = 1ul << (kPipe - 1) | 1ul << (kFileSize - 1);
  const unsigned long blocked = kRaised | 1ul << (kTerminalOutput - 1);
  const auto pointer = [](const void* to) { return reinterpret_cast<long>(to); };

  struct pollfd ready = {fd, POLLOUT, 0};
  const struct __kernel_timespec patience = {patience_ms / 1000, patience_ms % 1000 * 1000000L};
  const long polled = system(SYS_ppoll, pointer(&ready), 1, pointer(&patience), 0);
  if (polled < 0) return polled;
  if (polled != 1 || ready.revents != POLLOUT) return kAgain;

  unsigned long before = 0, pending = 0;
  system(SYS_rt_sigprocmask, kBlock, pointer(&blocked), pointer(&before), kSetBytes);
  system(SYS_rt_sigpending, pointer(&pending), kSetBytes, 0, 0);
  const long written = system(SYS_write, fd, pointer(data), static_cast<long>(bytes), 0);
  const unsigned long own = kRaised & ~pending;
  const struct __kernel_timespec at_once = {0, 0};
  if (written < 0 && own != 0) system(SYS_rt_sigtimedwait, pointer(&own), 0, pointer(&at_once), kSetBytes);
  system(SYS_rt_sigprocmask, kSetMask, pointer(&before), 0, kSetBytes);
  return written;
}

}  // namespace ncclwatch::descriptors
