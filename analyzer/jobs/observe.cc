#include "analyzer/jobs/observe.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>

#include "analyzer/console/units.h"
#include "analyzer/files/descriptor.h"
#include "ncclwatch/format/lease.h"
#include "watchdog/evidence/process_state.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

using format::Observed;

// Those of the leader (watchdog/watch/node/node_processes.cc): ten beats missed are worth a look, forty are silence.
constexpr std::chrono::nanoseconds kStaleHeartbeat = std::chrono::milliseconds(400);
constexpr std::chrono::nanoseconds kSilentAfter = std::chrono::seconds(2);

Observed Look(const reader::BoxImage& box, std::int64_t now) {
  const bool locked = LockHeld(box.path);
  const Observed state = evidence::StateOf(static_cast<std::int32_t>(box.pid), box.start_time);
  const bool there = state != Observed::kGone;
  if (!locked && !there) return Observed::kGone;
  if (locked != there) return Observed::kHidden;
  const std::chrono::nanoseconds silence(now - box.heartbeat_ns);
  if (silence < kStaleHeartbeat) return Observed::kRunning;
  return state == Observed::kRunning && silence >= kSilentAfter ? Observed::kSilent : state;
}

}  // namespace

const Here& ThisPlace() {
  static const Here here{rundir::BootId(), rundir::PidNamespace()};
  return here;
}

bool IsHere(const reader::BoxImage& box) {
  return !box.boot_id.empty() && box.boot_id == ThisPlace().boot_id && box.pid_namespace == ThisPlace().pid_namespace;
}

bool IsHere(const reader::Glance& box) {
  return !box.boot_id.empty() && box.boot_id == ThisPlace().boot_id && box.pid_namespace == ThisPlace().pid_namespace;
}

namespace {

bool IsLocked(const Descriptor& file) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return fcntl(file.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace

bool LockHeld(const std::string& path) {
  return IsLocked(Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)));
}

bool LockHeld(const descriptors::Directory& directory, const std::string& name) {
  return IsLocked(Descriptor(directory.Open(name, O_RDONLY | O_NONBLOCK)));
}

bool ProcessThere(std::uint32_t pid, std::uint64_t start_time) {
  return evidence::StateOf(static_cast<std::int32_t>(pid), start_time) != Observed::kGone;
}

bool Alive(const reader::BoxImage& box) {
  return LockHeld(box.path) || (IsHere(box) && ProcessThere(box.pid, box.start_time));
}

bool AnyAlive(const std::vector<reader::BoxImage>& boxes) { return std::any_of(boxes.begin(), boxes.end(), Alive); }

std::int64_t UntilNs(const reader::BoxImage& box) {
  return IsHere(box) && Alive(box) ? MonotonicNow() : box.heartbeat_ns;
}

std::vector<reader::Observation> ObserveNow(const std::vector<reader::BoxImage>& boxes,
                                            const std::vector<reader::Observation>& known) {
  std::vector<reader::Observation> seen;
  for (const reader::BoxImage& box : boxes) {
    if (!IsHere(box)) continue;
    const auto last = std::find_if(known.rbegin(), known.rend(), [&](const reader::Observation& observation) {
      return reader::IsAbout(observation, box);
    });
    reader::Observation now;
    now.at_ns = MonotonicNow();
    now.pid = box.pid;
    now.start_time = box.start_time;
    now.place = format::PidPlace(box.boot_id, box.pid_namespace);
    now.rank = box.rank;
    now.what = Look(box, now.at_ns);
    // An earlier sight of the same thing knows better since when, and how it ended.
    const Observed before = last == known.rend() ? Observed::kRunning : last->what;
    if (now.what != before) seen.push_back(now);
  }
  return seen;
}

}  // namespace ncclwatch::analyzer
