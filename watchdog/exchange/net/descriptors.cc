#include "watchdog/exchange/net/descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>

#include "watchdog/descriptors/high.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace ncclwatch::exchange {
namespace {

constexpr unsigned kUnshare = 1u << 1;  // CLOSE_RANGE_UNSHARE of linux/close_range.h
constexpr std::size_t kShared = 4096;   // more than these a fork child keeps

// number + 1, 0 free. Read by the handler of fork() in the child, where there is one thread only.
constinit std::array<std::atomic<int>, kShared> shared_with_host{};
std::atomic<bool> handler_set{false};

void CloseInChild() {
  for (std::atomic<int>& slot : shared_with_host)
    if (const int number = slot.exchange(0, std::memory_order_relaxed)) close(number - 1);
}

void Register(int fd) {
  if (!handler_set.exchange(true)) pthread_atfork(nullptr, nullptr, CloseInChild);
  for (std::atomic<int>& slot : shared_with_host) {
    int free = 0;
    if (slot.compare_exchange_strong(free, fd + 1, std::memory_order_relaxed)) return;
  }
}

void Unregister(int fd) {
  for (std::atomic<int>& slot : shared_with_host) {
    int number = fd + 1;
    if (slot.compare_exchange_strong(number, 0, std::memory_order_relaxed)) return;
  }
}

#if defined(__SANITIZE_THREAD__)
// It keeps one history for each number and takes those of two tables for the same file.
bool LeaveSharedTable() { return false; }
#else
bool LeaveSharedTable() {
  // Takes 0 to 2 along only. Without it everything is copied first and then closed, as a fork and exec would do.
  if (syscall(SYS_close_range, 3u, ~0u, kUnshare) == 0) return true;
  if (unshare(CLONE_FILES) != 0) return false;
  if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0) return true;
  const long most = sysconf(_SC_OPEN_MAX);
  for (int fd = 3; fd < most; ++fd) close(fd);
  return true;
}
#endif

}  // namespace

bool Descriptors::GoPrivate(int wake, int* own_wake) {
  *own_wake = -1;
  if (!LeaveSharedTable()) return false;
  private_ = true;
  // The host's standard descriptors may be pipes whose end somebody waits for; in their place nothing that a socket
  // could be mistaken for.
  for (int fd = 0; fd < 3; ++fd) close(fd);
  for (int fd = 0; fd < 3; ++fd)
    if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0) break;
  // The process's own table is that of its first thread. If that has ended, nobody can wake this one before its time.
  const std::string path = fmt::format("/proc/{}/fd/{}", getpid(), wake);
  *own_wake = Keep(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  return true;
}

int Descriptors::Keep(int fd) {
  if (fd < 0) return fd;
  fd = descriptors::MoveHigh(fd);
  if (!private_) Register(fd);
  return fd;
}

void Descriptors::Close(int fd) {
  if (fd < 0) return;
  // In this order: a number that is closed may be the host's in the next moment.
  if (!private_) Unregister(fd);
  close(fd);
}

}  // namespace ncclwatch::exchange
