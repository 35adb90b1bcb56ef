// What can be seen of a box's process from outside, now: is it there, does it hold its lock, is it stopped.
#pragma once

#include <string>
#include <vector>

#include "core/reader/glance.h"
#include "core/reader/image.h"

namespace ncclwatch::analyzer {

// Of the machine and pid namespace that this command runs in: /proc is looked at only where both are a box's own.
struct Here {
  std::string boot_id;
  std::uint64_t pid_namespace = 0;
};
const Here& ThisPlace();
bool IsHere(const reader::BoxImage& box);
bool IsHere(const reader::Glance& box);

// True if some process holds the box's lock (POSIX record lock on byte 0), in whatever pid namespace.
bool LockHeld(const std::string& path);
bool LockHeld(const descriptors::Directory& directory, const std::string& name);

// True if the process with this pid and start time exists and is no zombie. Only for boxes that are here.
bool ProcessThere(std::uint32_t pid, std::uint64_t start_time);

// Lock held, or process there: nothing of it may be removed, and its story may go on.
bool Alive(const reader::BoxImage& box);
bool AnyAlive(const std::vector<reader::BoxImage>& boxes);

// CLOCK_MONOTONIC of the box's node: how long a call that is pending has lasted. Now, or a dead process's last sign.
std::int64_t UntilNs(const reader::BoxImage& box);

// One observation for each box of this place, at this moment. Running processes are left out unless `known` says
// something else of them, which it then closes.
std::vector<reader::Observation> ObserveNow(const std::vector<reader::BoxImage>& boxes,
                                            const std::vector<reader::Observation>& known);

}  // namespace ncclwatch::analyzer
