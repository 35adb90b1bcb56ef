#include "analyzer/jobs/remove.h"

#include <absl/cleanup/cleanup.h>
#include <absl/status/statusor.h>
#include <absl/time/clock.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "core/reader/witness.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/own_names.h"
#include "watchdog/rundir/place.h"

namespace ncclwatch::analyzer {
namespace {

using What = Removal::What;

// What an LD_PRELOAD without spaces leads to; the library itself is nothing of a run.
bool IsOwnLink(std::string_view name, const struct stat& status) {
  return S_ISLNK(status.st_mode) && name.starts_with("libncclwatch");
}

std::string Parent(const std::string& path) { return path.substr(0, path.find_last_of('/')); }
std::string Leaf(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// The first directory of the job that `path` is an attempt or a run of.
std::string PlaceOf(std::string path) {
  while (IsNested(Leaf(path)) && !rundir::JobOf(Parent(path)).empty()) path = Parent(path);
  return path;
}

Descriptor OpenDirectory(const std::string& path) {
  return Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Removes what is below an opened directory, never following a link nor crossing to another file system.
class Remover {
 public:
  explicit Remover(dev_t device) : device_(device) {}

  // Everything, or only what is ncclwatch's own.
  void Empty(Descriptor directory, bool everything, int depth) {
    DIR* entries = fdopendir(directory.get());
    if (!entries) return;
    directory.Release();
    const absl::Cleanup close_directory = [entries] { closedir(entries); };
    std::vector<std::string> names;
    while (const dirent* entry = readdir(entries)) names.emplace_back(entry->d_name);
    // `job` last: what was removed in part must still be known as a run directory.
    std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name != "job"; });
    for (const std::string& name : names)
      if (name != "." && name != "..") Remove(dirfd(entries), name, everything, depth);
  }

  std::uint64_t bytes = 0;
  std::string left;  // the first thing that stayed

 private:
  void Remove(int directory, const std::string& name, bool everything, int depth) {
    constexpr int kDepth = 8;
    struct stat status {};
    if (fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (name == "job" && !everything && !left.empty()) return;
    if (!S_ISDIR(status.st_mode)) {
      if (!everything && !rundir::IsOwnFile(name) && !IsOwnLink(name, status)) return Keep(name, "not ncclwatch's own");
      if (unlinkat(directory, name.c_str(), 0) != 0) return Keep(name, std::strerror(errno));
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
      return;
    }
    if (!everything && !rundir::IsOwnFolder(name) && !IsNested(name)) return Keep(name, "not ncclwatch's own");
    if (depth >= kDepth || status.st_dev != device_ || status.st_uid != geteuid()) return Keep(name, "not ours");
    Descriptor child(openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!child) return Keep(name, std::strerror(errno));
    Empty(std::move(child), everything || rundir::IsOwnFolder(name), depth + 1);
    if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0) Keep(name, std::strerror(errno));
  }

  void Keep(const std::string& name, const char* why) {
    if (left.empty()) left = fmt::format("{} stays: {}", name, why);
  }

  dev_t device_;
};

bool BoxAlive(const descriptors::Directory& directory, const std::string& name) {
  if (LockHeld(directory, name)) return true;
  const std::optional<reader::Glance> box = reader::GlanceAt(directory, name);
  return box && IsHere(*box) && ProcessThere(box->pid, box->start_time);
}

bool PlaceAlive(const std::vector<std::string>& directories) {
  for (const std::string& path : directories) {
    const descriptors::Directory directory = descriptors::Directory::Named(path);
    for (const std::string& box : BoxFiles(path))
      if (BoxAlive(directory, Leaf(box))) return true;
  }
  return false;
}

absl::Time LastTouched(const struct stat& status, const std::vector<std::string>& directories) {
  absl::Time last = absl::TimeFromTimespec(status.st_mtim);
  for (const std::string& directory : directories)
    last = std::max(last, absl::FromUnixNanos(rundir::LookAt(directory, -1).last_realtime_ns));
  return last;
}

// The directory, opened and found to be ours, or the reason why it is not.
absl::StatusOr<Descriptor> OpenOurs(const std::string& place, struct stat* status) {
  Descriptor directory = OpenDirectory(place);
  if (!directory)
    return absl::NotFoundError(errno == ELOOP || errno == ENOTDIR ? "a link or not a directory" : std::strerror(errno));
  if (fstat(directory.get(), status) != 0 || status->st_uid != geteuid())
    return absl::PermissionDeniedError("belongs to somebody else");
  if (rundir::JobOf(place).empty()) return absl::InvalidArgumentError("names no job: not a run directory");
  return directory;
}

void RemoveDanglingLatest(const std::string& place) {
  const std::string link = Parent(place) + "/latest";
  char target[4096];
  const ssize_t n = readlink(link.c_str(), target, sizeof target);
  if (n > 0 && std::string_view(target, static_cast<std::size_t>(n)) == Leaf(place)) unlink(link.c_str());
}

}  // namespace

std::vector<std::string> RemovablePlaces(const std::vector<std::string>& words) {
  std::vector<std::string> places;
  const auto add = [&places](const std::string& place) {
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  };
  if (words.empty())
    for (const rundir::Listed& run : ListRuns()) add(PlaceOf(run.path));
  for (std::string word : words) {
    while (word.size() > 1 && word.back() == '/') word.pop_back();
    if (!rundir::JobOf(word).empty()) {
      add(PlaceOf(word));
      continue;
    }
    std::error_code error;
    for (std::filesystem::directory_iterator next(word, error), end; !error && next != end; next.increment(error))
      if (!next->is_symlink() && !rundir::JobOf(next->path()).empty()) add(next->path());
  }
  return places;
}

Descriptor HoldPlace(const std::string& place) {
  Descriptor directory = OpenDirectory(place);
  return directory && flock(directory.get(), LOCK_SH | LOCK_NB) == 0 ? std::move(directory) : Descriptor();
}

Removal RemovePlace(const std::string& place, const RemovalRequest& request) {
  Removal removal{place, What::kNotOurs, 0, ""};
  struct stat status {};
  const auto opened = OpenOurs(place, &status);
  if (!opened.ok()) {
    removal.reason = std::string(opened.status().message());
    return removal;
  }
  const std::vector<std::string> directories = BoxDirectories(place);
  if (flock(opened->get(), LOCK_EX | LOCK_NB) != 0 || PlaceAlive(directories)) {
    removal.what = What::kAlive;
  } else if (absl::Now() - LastTouched(status, directories) < request.older_than ||
             (directories.empty() && !request.empty_too)) {
    removal.what = What::kTooYoung;
  } else if (request.dry_run) {
    removal.what = What::kWouldRemove;
    for (const std::string& directory : directories)
      for (const std::string& box : BoxFiles(directory)) {
        struct stat file {};
        if (lstat(box.c_str(), &file) == 0) removal.bytes += static_cast<std::uint64_t>(file.st_blocks) * 512;
      }
  } else {
    Remover remover(status.st_dev);
    remover.Empty(Descriptor(fcntl(opened->get(), F_DUPFD_CLOEXEC, 0)), false, 0);
    const bool gone = rmdir(place.c_str()) == 0;
    removal.what = gone ? What::kRemoved : What::kPartly;
    removal.bytes = remover.bytes;
    if (!gone) removal.reason = remover.left.empty() ? std::strerror(errno) : remover.left;
    if (gone) RemoveDanglingLatest(place);
  }
  return removal;
}

}  // namespace ncclwatch::analyzer
