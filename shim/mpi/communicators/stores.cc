#include "shim/mpi/communicators/stores.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#include "shim/base/self_memory.h"
#include "shim/mpi/core/changed_runs.h"
#include "shim/mpi/core/handle_map.h"
#include "shim/mpi/core/own_memory.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/record/parts.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim::mpi {
namespace {

struct Kept {
  Piece memory = {};
  Piece copy = {};
  std::uint64_t windows_made = 0;  // when it was copied: another one may have the same memory
  bool valid = false;
};
constinit HandleMap<Kept> kept;  // by window
constinit std::atomic<std::uint64_t> kept_bytes{0};
constinit std::atomic_flag said_too_large = ATOMIC_FLAG_INIT;

Piece Map(std::uint64_t bytes) {
  if (kept_bytes.fetch_add(bytes) + bytes <= format::kMostStoredBytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    if (memory != MAP_FAILED) return {begin, begin + bytes};
  }
  kept_bytes.fetch_sub(bytes);
  if (!said_too_large.test_and_set())
    log::host::Warn("windows of more than {} MiB: whether this process changes memory that others get is not watched",
                    format::kMostStoredBytes >> 20);
  return {};
}

void Unmap(const Piece& copy) {
  if (copy.empty()) return;
  munmap(reinterpret_cast<void*>(copy.begin), copy.bytes());
  kept_bytes.fetch_sub(copy.bytes());
}

// Not all of it can be read: nothing is told.
bool Compare(const Kept& one, ChangedRuns* runs) {
  constexpr std::uint64_t kBlock = 4096;
  unsigned char block[kBlock];
  for (std::uint64_t at = 0; at < one.memory.bytes(); at += kBlock) {
    const std::uint64_t bytes = std::min(kBlock, one.memory.bytes() - at);
    if (!ReadSelf(one.memory.begin + at, block, bytes)) return false;
    if (!runs->Compare(reinterpret_cast<const unsigned char*>(one.copy.begin + at), block, bytes, at)) break;
  }
  return true;
}

}  // namespace

void KeepMemory(const Call& fence, MPI_Win window) {
  Piece memory;
  if (fence.misuse || !OnlyOwners(Bits(window), &memory) || memory.empty()) return;
  Kept one;
  kept.Find(Bits(window), &one);
  if (one.copy.bytes() != memory.bytes()) {
    Unmap(one.copy);
    one.copy = Map(memory.bytes());
  }
  one.memory = memory;
  one.windows_made = WindowsMade();
  one.valid = !one.copy.empty() && ReadSelf(memory.begin, reinterpret_cast<void*>(one.copy.begin), memory.bytes());
  if (!kept.Put(Bits(window), one)) Unmap(one.copy);
}

void TellStores(Call& fence, MPI_Win window) {
  Kept one;
  if (!kept.Find(Bits(window), &one) || !one.valid) return;
  kept.Change(Bits(window), [](Kept& there) { there.valid = false; });
  if (one.windows_made != WindowsMade() || !InSight(ObjectKind::kWindow)) return;
  ChangedRuns runs;
  if (!Compare(one, &runs) || runs.count() == 0) return;
  Parts parts(fence, 0, runs.count());
  for (std::uint32_t i = 0; i < runs.count(); ++i) parts.Add(format::PartOf(runs[i]));
  parts.Done();
}

void ForgetMemory(MPI_Win window) {
  Kept one;
  if (kept.Find(Bits(window), &one) && kept.Remove(Bits(window), [](const Kept&) { return true; })) Unmap(one.copy);
}

}  // namespace ncclwatch::shim::mpi
