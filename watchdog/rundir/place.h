// One directory: made or entered only if it is ours alone.
#pragma once

#include <cstdint>
#include <string>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::rundir {

// Makes the directory (0700; its missing parents too) if it is not there. Empty if it is then a directory of ours that
// nobody else can write, nor replace (descriptors/directory.h); else why not. *made says whether this call made the
// last component.
std::string Enter(const std::string& path, bool* made);

inline constexpr std::uint64_t kNobody = ~std::uint64_t{0};
// What the boxes in one directory (not below it) tell.
struct Boxes {
  int all = 0;
  int alive = 0;
  bool same_rank = false;  // one is of `rank`, and of another process than this one
  bool same_rank_alive = false;
  bool ranked = false;                   // a rank was asked for
  bool own = false;                      // one is of this process
  bool whole_world = false;              // one has made a communicator with all ranks of its job
  std::uint64_t oldest_alive = kNobody;  // start time (/proc) of the oldest that lives
  std::int64_t last_heartbeat_ns = 0;    // CLOCK_MONOTONIC
  std::int64_t last_realtime_ns = 0;     // the same, CLOCK_REALTIME
};
// Must not be called for a directory that holds this process's own, locked box: closing it drops the lock.
Boxes LookAt(const std::string& path, std::int32_t rank);
Boxes LookAt(const descriptors::Directory& directory, std::int32_t rank);

// A launcher-less job can look exactly like an earlier one: are these boxes of such an earlier one, or of survivors of
// it?
bool OfEarlierJob(const Boxes& boxes);

enum class Claim { kMade, kJoined, kTaken, kFailed };
// Names the job in `path`/job, once for all ranks: the file appears with its content or not at all.
Claim ClaimFor(const std::string& path, const std::string& job);
std::string JobOf(const std::string& path);  // empty: none named
std::string JobOf(const descriptors::Directory& directory);

// Points `parent`/latest to the entry `name`; failure does not matter.
void PointLatest(const std::string& parent, const std::string& name);

}  // namespace ncclwatch::rundir
