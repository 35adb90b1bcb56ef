#include "shim/black_box/slots.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ncclwatch::shim {
namespace {

const Thread* const kSeveral = reinterpret_cast<const Thread*>(1);
// Yields. A thread that was killed between two instructions does not hang the others; at worst a slot is taken twice.
constexpr int kPatience = 1000000;

bool AllProcessors(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

Slots::Slots() {
  if (AllProcessors(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) return;
  alone_.store(kSeveral, std::memory_order_relaxed);
  ended_.store(true, std::memory_order_relaxed);
}

void Slots::EndAlone() {
  AllProcessors(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  for (int i = 0; i < kPatience && taking_.load(std::memory_order_acquire); ++i) sched_yield();
  ended_.store(true, std::memory_order_release);
}

std::uint64_t Slots::TakeAmongSeveral(std::atomic<std::uint64_t>& head, const Thread& thread) {
  const Thread* first = nullptr;
  if (alone_.compare_exchange_strong(first, &thread)) return Take(head, thread);
  if (first != kSeveral && alone_.compare_exchange_strong(first, kSeveral)) EndAlone();
  for (int i = 0; i < kPatience && !ended_.load(std::memory_order_acquire); ++i) sched_yield();
  return head.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ncclwatch::shim
