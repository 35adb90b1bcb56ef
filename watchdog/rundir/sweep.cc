#include "watchdog/rundir/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/place.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::rundir {
namespace {

constexpr int kDepth = 6;            // a run, an attempt, its evidence
constexpr char kAside[] = ".gone.";  // what a process was removing when it was killed (leave.cc)

std::vector<std::string> NamesIn(int directory) {
  std::vector<std::string> names;
  DIR* entries = fdopendir(fcntl(directory, F_DUPFD_CLOEXEC, 512));
  if (!entries) return names;
  rewinddir(entries);
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(entries);
  return names;
}

int OpenIn(int directory, const std::string& name) {
  return descriptors::OpenAt(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Size and last change of all below, and whether a process lives there.
struct Sum {
  std::uint64_t bytes = 0;
  std::int64_t touched_ns = 0;
  bool alive = false;
};
void Add(int directory, const std::string& path, int depth, Sum* sum) {
  struct stat info {};
  if (fstat(directory, &info) == 0)
    sum->touched_ns = std::max<std::int64_t>(sum->touched_ns, info.st_mtim.tv_sec * 1'000'000'000LL);
  const Boxes boxes = LookAt(path, -1);
  sum->alive |= boxes.alive > 0;
  sum->touched_ns = std::max(sum->touched_ns, boxes.last_realtime_ns);
  for (const std::string& name : NamesIn(directory)) {
    if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    sum->bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (!S_ISDIR(info.st_mode) || depth >= kDepth) continue;
    const int child = OpenIn(directory, name);
    if (child < 0) continue;
    Add(child, path + "/" + name, depth + 1, sum);
    close(child);
  }
}

void Empty(int directory, dev_t device, int depth) {
  std::vector<std::string> names = NamesIn(directory);
  // `job` last: what was removed in part must still be known as a run directory.
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name != "job"; });
  for (const std::string& name : names) {
    struct stat info {};
    if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISDIR(info.st_mode)) {
      unlinkat(directory, name.c_str(), 0);
      continue;
    }
    if (depth >= kDepth || info.st_dev != device) continue;
    const int child = OpenIn(directory, name);
    if (child < 0) continue;
    Empty(child, device, depth + 1);
    close(child);
    unlinkat(directory, name.c_str(), AT_REMOVEDIR);
  }
}

// Unless somebody has come to it meanwhile, or is coming (hold.h).
void Remove(const std::string& path) {
  const int fd = descriptors::Open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info {};
  Sum sum;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid()) {
    Add(fd, path, 0, &sum);
    if (!sum.alive) {
      Empty(fd, info.st_dev, 0);
      rmdir(path.c_str());
    }
  }
  close(fd);
}

std::int64_t Realtime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

Sweep::Sweep(const settings::Keep& keep, std::string own) : keep_(keep), own_(std::move(own)) {
  for (std::string& base : DefaultBases()) bases_.push_back(std::move(base));
}

void Sweep::LookAtBase(const std::string& base) {
  struct stat info {};
  struct statvfs space {};
  const int fd = descriptors::Open(base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  std::vector<Leftover> left;
  if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    for (const std::string& name : NamesIn(fd)) {
      const std::string path = base + "/" + name;
      const bool aside = name.starts_with(kAside);
      const int run = own_ == path || own_.starts_with(path + "/") ? -1 : OpenIn(fd, name);
      if (run < 0) continue;
      Sum sum;
      if (aside || !JobOf(path).empty()) Add(run, path, 0, &sum);
      close(run);
      if (aside && !sum.alive) doomed_.push_back({path, 0, 0});
      if (!aside && sum.bytes > 0 && !sum.alive) left.push_back({path, sum.touched_ns, sum.bytes});
    }
  }
  const bool known = fstatvfs(fd, &space) == 0;
  close(fd);
  const std::uint64_t quarter = known ? space.f_blocks * space.f_frsize / 4 : keep_.bytes;
  const std::uint64_t most = std::min(keep_.bytes, quarter);
  std::sort(left.begin(), left.end(), [](const Leftover& a, const Leftover& b) { return a.touched_ns > b.touched_ns; });
  std::uint64_t bytes = 0;
  for (const Leftover& one : left) {  // the newest first: they stay
    bytes += one.bytes;
    const double age_s = static_cast<double>(Realtime() - one.touched_ns) / 1e9;
    if (age_s > keep_.age_s || bytes > most) doomed_.push_back(one);
  }
}

bool Sweep::Step() {
  if (keep_.all) return false;
  if (!doomed_.empty()) {
    Remove(doomed_.front().path);
    doomed_.pop_front();
  } else if (!bases_.empty()) {
    LookAtBase(bases_.front());
    bases_.pop_front();
  }
  return !doomed_.empty() || !bases_.empty();
}

}  // namespace ncclwatch::rundir
