#include "shim/black_box/groups.h"

#include <sys/mman.h>

#include <bit>

namespace ncclwatch::shim {

Group* GroupPool::Claim() {
  std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  int at;
  do {
    at = std::countr_one(taken);
    if (at >= kGroups) return nullptr;
  } while (!taken_.compare_exchange_weak(taken, taken | std::uint64_t{1} << at, std::memory_order_acquire));
  Group* group = groups_[at].load(std::memory_order_relaxed);
  if (!group) {
    void* memory =
        mmap(nullptr, sizeof(Group), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      taken_.fetch_and(~(std::uint64_t{1} << at), std::memory_order_release);
      return nullptr;
    }
    group = static_cast<Group*>(memory);
    groups_[at].store(group, std::memory_order_relaxed);
  }
  group->operations = 0;
  group->creations = 0;
  group->deferred = 0;
  group->failed = false;
  return group;
}

void GroupPool::Release(Group* group) {
  for (int at = 0; at < kGroups; ++at) {
    if (groups_[at].load(std::memory_order_relaxed) != group) continue;
    taken_.fetch_and(~(std::uint64_t{1} << at), std::memory_order_release);
    return;
  }
}

}  // namespace ncclwatch::shim
