// The lease on leadership of one node: a small file in the run directory, mapped by every watchdog.
//
// holder packs (generation << 32 | pid). A candidate may overtake when the holder's process is gone or its heartbeat
// is older than the lease; it does so with one compare-and-swap to generation + 1. A holder that finds another
// generation has been overtaken and acts no more.
//
// A pid alone names no process: the candidate may live in another container, or the pid may have been given away. The
// holder adds two words right after the swap, each with the generation that it speaks of. Until both do, and where the
// place is not the candidate's own, only the heartbeat says whether the holder lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace ncclwatch::format {

inline constexpr char kLeaseMagic[8] = {'N', 'C', 'W', 'L', 'E', 'A', 'S', 'E'};

struct Lease {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved32;
  std::atomic<std::uint64_t> holder;
  std::atomic<std::int64_t> heartbeat_ns;   // CLOCK_MONOTONIC
  std::atomic<std::uint32_t> switched_off;  // `ncclwatch off`: 1 while nobody shall watch
  std::atomic<std::uint32_t> alone;         // 1 once it has been said that other nodes are not looked for
  std::atomic<std::uint64_t> announced;     // 1 once the line "watching n/n ranks" has been said
  std::atomic<std::uint64_t> verdicts;      // verdicts published so far (also by earlier leaders)
  // Not 0: the leader ends the job (NCCLWATCH_ON_FAULT=abort); every watchdog ends its process with status 86.
  std::atomic<std::uint64_t> ending;
  std::atomic<std::uint64_t> holder_place;  // generation << 32 | PidPlace of the holder
  std::atomic<std::uint64_t> holder_start;  // generation << 48 | low 48 bits of field 22 of its /proc/PID/stat
  // Who wants the node's evidence now (SIGUSR2, `ncclwatch dump`) adds 1 to the first word; once the second is no less
  // than the number that came of it, the leader has put it beside the boxes. Files made before these words are zero.
  std::atomic<std::uint64_t> evidence_wanted;
  std::atomic<std::uint64_t> evidence_given;
  // Likewise, of every process: to write its own stacks, where nobody else may read them. They answer with files.
  std::atomic<std::uint64_t> own_stacks_wanted;
  std::uint64_t reserved;
};
static_assert(sizeof(Lease) == 112);

// Which pids a pid is one of: the boot, and the inode of /proc/self/ns/pid.
constexpr std::uint32_t PidPlace(std::string_view boot_id, std::uint64_t pid_namespace) {
  std::uint32_t hash = 0x811c9dc5u;
  for (const char c : boot_id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
  for (int shift = 0; shift < 64; shift += 8)
    hash = (hash ^ static_cast<std::uint32_t>(pid_namespace >> shift & 0xff)) * 0x01000193u;
  return hash;
}

}  // namespace ncclwatch::format
