// What the leader saw of a process from outside, and the limits it judged by: the only inputs of a diagnosis that are
// not in the bytes of the judged process. Written into the leader's own black box.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::format {

enum class Observed : std::uint32_t {
  kNothing = 0,
  kGone = 1,      // lock free and process gone
  kHidden = 2,    // only one of the two: never certain
  kStopped = 3,   // state T: by a signal
  kTraced = 4,    // state t: by a debugger
  kFrozen = 5,    // by the cgroup freezer
  kStuck = 6,     // state D
  kSilent = 7,    // alive and runnable, heartbeat stale (starved, or its watchdog is gone)
  kDumping = 8,   // writing a core file: dying
  kBoxless = 9,   // a process of the job without a black box (pid of the process, rank from its environment)
  kRunning = 10,  // runs again, or for the first time: closes an earlier observation
  // By the hub, of processes of another node, never certain:
  kLost = 11,    // the node is not heard of any more: lost, or cut off
  kClosed = 12,  // its kernel closed the connection of its leader, and nobody there has come back: all are gone
};

enum ExitFlags : std::uint32_t { kExitKnown = 1, kExitCore = 2, kExitOutOfMemory = 4 };

// Keyed by (pid, start_time, place); a later entry for the same process replaces what an earlier one said.
struct Observation {
  std::atomic<std::uint64_t> commit;  // index + 1 when whole
  std::int64_t at_ns;                 // CLOCK_MONOTONIC of the observer's node
  std::uint32_t pid;
  std::int32_t rank;         // job rank, kNoRank unknown
  std::uint64_t start_time;  // field 22 of /proc/PID/stat
  std::uint32_t what;        // Observed
  std::uint32_t exit_flags;  // ExitFlags
  std::int32_t exit_signal;  // 0 none
  std::int32_t exit_status;  // valid with kExitKnown and exit_signal == 0
  std::uint32_t place;       // which pids pid is one of (PidPlace, lease.h); 0: not said, any
  std::uint32_t reserved;
};
static_assert(sizeof(Observation) == 56);

// The leader's limits, learned from the job or set by the user, and the instant of its standing verdict.
struct LeaderState {
  std::atomic<std::uint64_t> sequence;  // odd while being written
  std::int64_t suspect_after_ns;        // no progress for this long is `suspected`
  std::int64_t likely_after_ns;         // ... is `likely`
  std::int64_t verdict_at_ns;           // CLOCK_MONOTONIC of the standing verdict, 0 none (or withdrawn)
  std::int64_t longest_wait_ns;         // the longest wait that resolved by itself
  std::uint64_t waits;                  // how many waits were seen to resolve
  // Under which it was written: the hub's reign << 32 (0: this node was judged alone), 1 << 31 if by the hub itself,
  // and the generation of the node's lease. The highest one speaks.
  std::uint64_t generation;
  std::int64_t job_minus_monotonic_ns;  // the clock that the job's nodes agree on, 0: none was agreed on
};
static_assert(sizeof(LeaderState) == 64);

}  // namespace ncclwatch::format
