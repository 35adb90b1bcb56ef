#include "analyzer/run/deaths.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <tuple>
#include <utility>

#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/run/running_normally.h"
#include "core/reader/glance.h"
#include "ncclwatch/format/lease.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/evidence/pidfd.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

// From the closing of its last descriptors to its end a process does next to nothing.
constexpr std::chrono::nanoseconds kClosedByItsEnd = std::chrono::seconds(1);

bool MadeSince(const std::string& path, absl::Time moment) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && absl::TimeFromTimespec(status.st_mtim) >= moment;
}

}  // namespace

Deaths::Deaths(const std::string& place, absl::Time began) : place_(place), began_(began) { closings_.Watch(place); }

void Deaths::Scan() {
  for (const std::string& directory : PlaceDirectories(place_)) {
    closings_.Watch(directory);  // before it is read: what is put there afterwards wakes
    for (const std::string& box : BoxFiles(directory)) {
      if (known_.contains(box) || !MadeSince(box, began_)) continue;
      if (std::find(directories_.begin(), directories_.end(), directory) == directories_.end())
        directories_.push_back(directory);
      Follow(box);
    }
  }
}

void Deaths::Follow(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::optional<reader::Glance> box =
      reader::GlanceAt(descriptors::Directory::Named(path.substr(0, slash)), path.substr(slash + 1));
  if (!box) return;  // not whole yet: the next scan tries again
  known_.insert(path);
  if (!IsHere(*box)) return;
  Process process;
  process.box = path;
  process.seen.pid = box->pid;
  process.seen.start_time = box->start_time;
  process.seen.rank = box->rank;
  process.seen.place = format::PidPlace(box->boot_id, box->pid_namespace);
  process.closing = closings_.Follow(path);
  process.pidfd = Descriptor(evidence::OpenPidfd(static_cast<std::int32_t>(box->pid)));
  const auto stat = rundir::StatOf(static_cast<std::int32_t>(box->pid));
  const bool the_same = process.pidfd && stat && stat->start_time == box->start_time;
  if (!the_same) {  // it ended before it was seen: when and how is not known
    process.pidfd = Descriptor();
    missed_ = true;
    process.ended = true;
    process.seen.at_ns = MonotonicNow();
    processes_.push_back(std::move(process));
    return;
  }
  process.memory_group = memory_kills_.Follow(static_cast<std::int32_t>(box->pid));
  processes_.push_back(std::move(process));
}

void Deaths::AddTo(std::vector<pollfd>* polled) const {
  for (const Process& process : processes_)
    if (!process.ended) polled->push_back({process.pidfd.get(), POLLIN, 0});
  if (closings_.descriptor() >= 0) polled->push_back({closings_.descriptor(), POLLIN, 0});
}

bool Deaths::OthersLive() const {
  const auto closed = [](const Process& process) { return process.order != 0; };
  if (std::all_of(processes_.begin(), processes_.end(), closed)) return false;  // nobody is left
  return std::all_of(processes_.begin(), processes_.end(), [&](const Process& process) {
    return closed(process) || IsUnharmed(static_cast<std::int32_t>(process.seen.pid), process.seen.start_time);
  });
}

void Deaths::TakeClosings() {
  const std::size_t before = closed_;
  Process* last = nullptr;
  for (const int closing : closings_.Take())
    for (Process& process : processes_) {
      if (process.closing != closing || process.order != 0) continue;
      process.order = ++closed_;
      process.closed_ns = MonotonicNow();
      last = &process;
    }
  if (closed_ == before + 1) last->others_lived = OthersLive();
}

void Deaths::Look() {
  TakeClosings();  // at once: launchers kill the others within a fraction of a millisecond
  memory_kills_.Refresh(MonotonicNow());
  for (Process& process : processes_) {
    pollfd one{process.pidfd.get(), POLLIN, 0};
    if (!process.ended && poll(&one, 1, 0) == 1) {
      process.ended = true;
      process.seen.at_ns = MonotonicNow();
    }
  }
  TakeClosings();
  for (Process& process : processes_) {
    if (process.ended && process.order == 0) process.closed_unseen = true;
    if (process.ended && !(process.seen.exit_flags & format::kExitKnown)) Learn(&process);
  }
}

void Deaths::Learn(Process* process) {
  const evidence::ExitWord word =
      evidence::ExitOf(static_cast<std::int32_t>(process->seen.pid), process->seen.start_time, process->pidfd.get());
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

bool Deaths::Ordered(const Process& process) const {
  return !closings_.lost() && !missed_ && process.order != 0 && !process.closed_unseen &&
         process.seen.at_ns - process.closed_ns < kClosedByItsEnd.count();
}

reader::Witness Deaths::Ends(const std::string& directory) {
  std::vector<const Process*> ended;
  for (Process& process : processes_) {
    if (!process.ended || process.box.substr(0, process.box.rfind('/')) != directory) continue;
    // A lock that is still held after the process has gone: contradicting facts are never certain.
    process.seen.what = LockHeld(process.box) ? format::Observed::kHidden : format::Observed::kGone;
    if (Ordered(process)) process.seen.at_ns = process.closed_ns;
    ended.push_back(&process);
  }
  std::stable_sort(ended.begin(), ended.end(), [](const Process* a, const Process* b) {
    return std::tie(a->seen.at_ns, a->order) < std::tie(b->seen.at_ns, b->order);
  });
  reader::Witness witness;
  for (const Process* process : ended)
    witness.push_back({process->seen, Ordered(*process), Ordered(*process) && process->others_lived});
  return witness;
}

}  // namespace ncclwatch::analyzer
