#include "core/reader/guard.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace ncclwatch::reader::guard {
namespace {

constexpr int kMost = 4096;  // boxes of one node, and a few

struct Mapping {
  // Stored last and taken away first: a mapping with it is whole.
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<int> protection{0};
  std::atomic<std::int32_t> owner{0};  // pid: a fork child has these entries, and other things at their addresses
  std::atomic<bool> taken{false};
  std::atomic<bool> lost{false};
};
constinit Mapping mappings[kMost];
constinit std::atomic<bool> armed{false};
constinit std::atomic<int> used{0};  // entries ever used
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

// Read in signal handlers: one instruction, never a lazily allocated block.
thread_local constinit bool ours __attribute__((tls_model("initial-exec"))) = false;

std::int32_t Self() { return static_cast<std::int32_t>(syscall(SYS_getpid)); }

bool BlocksCaller(const Mapping& mapping, std::uintptr_t address) {
  const std::uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
  return begin != 0 && address >= begin && address - begin < mapping.bytes.load(std::memory_order_relaxed) &&
         mapping.owner.load(std::memory_order_relaxed) == Self();
}

}  // namespace

int Enroll(const void* begin, std::size_t bytes, int protection) {
  for (int number = 0; number < kMost; ++number) {
    Mapping& mapping = mappings[number];
    if (mapping.taken.load(std::memory_order_relaxed) || mapping.taken.exchange(true, std::memory_order_acquire))
      continue;
    mapping.lost.store(false, std::memory_order_relaxed);
    mapping.bytes.store(bytes, std::memory_order_relaxed);
    mapping.protection.store(protection, std::memory_order_relaxed);
    mapping.owner.store(Self(), std::memory_order_relaxed);
    mapping.begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
    int most = used.load(std::memory_order_relaxed);
    while (most <= number && !used.compare_exchange_weak(most, number + 1, std::memory_order_release)) {
    }
    return number;
  }
  return -1;
}

void Dismiss(int number) {
  if (number < 0) return;
  mappings[number].begin.store(0, std::memory_order_release);
  mappings[number].taken.store(false, std::memory_order_release);
}

bool Lost(int number) { return number >= 0 && mappings[number].lost.load(std::memory_order_acquire); }

void Arm() { armed.store(true, std::memory_order_release); }

void OpenThisThread() {
  if (!armed.load(std::memory_order_acquire)) return;
  ours = true;
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

bool IsOurThread() { return ours; }

int Mend(std::uintptr_t address) {
  const int most = used.load(std::memory_order_acquire);
  for (int number = 0; number < most; ++number) {
    Mapping& mapping = mappings[number];
    if (!BlocksCaller(mapping, address)) continue;
    const int kept = errno;
    const std::uintptr_t begin = mapping.begin.load(std::memory_order_relaxed);
    const std::size_t bytes = mapping.bytes.load(std::memory_order_relaxed);
    // Past every wrapper of the C library and of tools: a signal handler calls this.
    const long mapped = syscall(SYS_mmap, begin, bytes, mapping.protection.load(std::memory_order_relaxed),
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L);
    const bool mended = mapped == static_cast<long>(begin);
    if (mended) syscall(SYS_madvise, begin, bytes, MADV_DONTFORK);
    if (mended) mapping.lost.store(true, std::memory_order_release);
    errno = kept;
    return mended ? number : -1;
  }
  return -1;
}

}  // namespace ncclwatch::reader::guard
