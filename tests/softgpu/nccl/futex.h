// Sleeping on a 32-bit word, shared between processes or private to one.
#ifndef SOFTGPU_NCCL_FUTEX_H_
#define SOFTGPU_NCCL_FUTEX_H_

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace softgpu {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// Longest sleep without looking at anything else. An abort wakes its sleepers itself; this bounds the wait of one that
// was just about to fall asleep at that moment, and paces the look for dead peers.
constexpr long kFutexTimeoutNs = 100'000'000;

// Sleeps while *word == expected, at most kFutexTimeoutNs. Returns false if that time passed.
inline bool FutexWait(const std::atomic<uint32_t>* word, uint32_t expected) {
  const timespec timeout{0, kFutexTimeoutNs};
  return syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

inline void FutexWakeAll(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_FUTEX_H_
