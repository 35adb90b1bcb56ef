#include "analyzer/run/deaths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "watchdog/evidence/pidfd.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

bool MadeSince(const std::string& path, std::int64_t realtime_ns) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec >= realtime_ns;
}

}  // namespace

Deaths::~Deaths() {
  for (const Process& process : processes_)
    if (process.pidfd >= 0) close(process.pidfd);
}

void Deaths::Scan() {
  for (const std::string& directory : BoxDirectories(place_))
    for (const std::string& box : BoxFiles(directory)) {
      if (std::find(known_.begin(), known_.end(), box) != known_.end() || !MadeSince(box, began_ns_)) continue;
      if (std::find(directories_.begin(), directories_.end(), directory) == directories_.end())
        directories_.push_back(directory);
      Follow(box);
    }
}

void Deaths::Follow(const std::string& path) {
  const auto opened = reader::MappedBox::Open(path);
  const auto* box = std::get_if<std::unique_ptr<reader::MappedBox>>(&opened);
  if (!box) return;  // not whole yet: the next scan tries again
  known_.push_back(path);
  const format::Identity& identity = (*box)->header().identity;
  const std::string_view boot(identity.boot_id, strnlen(identity.boot_id, sizeof identity.boot_id));
  if (boot != ThisPlace().boot_id || identity.pid_namespace != ThisPlace().pid_namespace) return;
  Process process;
  process.box = path;
  process.seen.pid = identity.pid;
  process.seen.start_time = identity.start_time;
  process.seen.rank = identity.rank;
  process.pidfd = evidence::OpenPidfd(static_cast<std::int32_t>(identity.pid));
  const auto stat = rundir::StatOf(static_cast<std::int32_t>(identity.pid));
  const bool the_same = process.pidfd >= 0 && stat && stat->start_time == identity.start_time;
  if (!the_same) {  // it ended before it was seen: when and how is not known
    if (process.pidfd >= 0) close(process.pidfd);
    return;
  }
  process.memory_group = memory_kills_.Follow(static_cast<std::int32_t>(identity.pid));
  processes_.push_back(process);
}

void Deaths::AddTo(std::vector<pollfd>* polled) const {
  for (const Process& process : processes_)
    if (!process.ended) polled->push_back({process.pidfd, POLLIN, 0});
}

void Deaths::Look() {
  memory_kills_.Refresh(MonotonicNow());
  for (Process& process : processes_) {
    pollfd one{process.pidfd, POLLIN, 0};
    if (!process.ended && poll(&one, 1, 0) == 1) {
      process.ended = true;
      process.seen.at_ns = MonotonicNow();
    }
    if (process.ended && !(process.seen.exit_flags & format::kExitKnown)) Learn(&process);
  }
}

void Deaths::Learn(Process* process) {
  const evidence::ExitWord word =
      evidence::ExitOf(static_cast<std::int32_t>(process->seen.pid), process->seen.start_time, process->pidfd);
  process->seen.exit_flags = word.flags;
  process->seen.exit_signal = word.signal;
  process->seen.exit_status = word.status;
  if (word.signal == SIGKILL && memory_kills_.TakeKill(process->memory_group))
    process->seen.exit_flags |= format::kExitOutOfMemory;
}

bool Deaths::AnyAlive() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& process) { return !process.ended; });
}

bool Deaths::ExitSeen(int status) const {
  return std::any_of(processes_.begin(), processes_.end(), [status](const Process& process) {
    return (process.seen.exit_flags & format::kExitKnown) && process.seen.exit_signal == 0 &&
           process.seen.exit_status == status;
  });
}

std::vector<reader::Observation> Deaths::Observations() {
  std::vector<reader::Observation> all;
  for (Process& process : processes_) {
    if (!process.ended) continue;
    // A lock that is still held after the process has gone: contradicting facts are never certain.
    process.seen.what = LockHeld(process.box) ? format::Observed::kHidden : format::Observed::kGone;
    all.push_back(process.seen);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  return all;
}

}  // namespace ncclwatch::analyzer
