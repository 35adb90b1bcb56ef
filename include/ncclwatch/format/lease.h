// The lease on leadership of one node: a small file in the run directory, mapped by every watchdog.
//
// holder packs (generation << 32 | pid). A candidate may overtake when the holder's process is gone or its heartbeat
// is older than the lease; it does so with one compare-and-swap to generation + 1. A holder that finds another
// generation has been overtaken and acts no more.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::format {

inline constexpr char kLeaseMagic[8] = {'N', 'C', 'W', 'L', 'E', 'A', 'S', 'E'};

struct Lease {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved32;
  std::atomic<std::uint64_t> holder;
  std::atomic<std::int64_t> heartbeat_ns;   // CLOCK_MONOTONIC
  std::atomic<std::uint32_t> switched_off;  // `ncclwatch off`: 1 while nobody shall watch
  std::uint32_t reserved32b;
  std::atomic<std::uint64_t> announced;  // 1 once the line "watching n/n ranks" has been said
  std::atomic<std::uint64_t> verdicts;   // verdicts published so far (also by earlier leaders)
  // Not 0: the leader ends the job (NCCLWATCH_ON_FAULT=abort); every watchdog ends its process with status 86.
  std::atomic<std::uint64_t> ending;
};
static_assert(sizeof(Lease) == 64);

}  // namespace ncclwatch::format
