#include "watchdog/rundir/run_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/descriptors/limited_write.h"
#include "watchdog/rundir/place.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::rundir {
namespace {

// How much of a place black boxes may take.

// What a job needs in a directory: one box for each of its ranks on this node, in the largest of `sizes` (bytes of one
// box, falling) with which all of them take at most half of what is free there: the rest is the application's.
struct Need {
  std::uint64_t ranks = 1;  // at least so many will come
  std::vector<std::uint64_t> sizes;
};
struct RoomThere {
  std::string refusal;   // empty: there is room
  std::size_t size = 0;  // index into Need::sizes
  std::string shrunk;    // not empty: why it is not the first size
};

std::string WhyNot(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));
}

struct Present {
  std::uint64_t boxes = 0;
  std::uint64_t bytes = 0;
};
Present BoxesIn(const std::string& path) {
  Present present;
  DIR* directory = descriptors::OpenDirectory(path);
  if (!directory) return present;
  while (const dirent* entry = readdir(directory)) {
    struct stat file {};
    if (!std::string_view(entry->d_name).ends_with(format::kBoxSuffix)) continue;
    if (fstatat(dirfd(directory), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
    ++present.boxes;
    present.bytes += static_cast<std::uint64_t>(file.st_blocks) * 512;
  }
  closedir(directory);
  return present;
}

std::string Mib(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

// Empty, or why `bytes` cannot be allocated there.
std::string Try(const std::string& path, std::uint64_t bytes) {
  const std::string trial = path + "/.trial." + OwnPid();
  const int fd = descriptors::Open(trial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return path + ": " + WhyNot(errno);
  unlink(trial.c_str());
  // A file for all of them may be longer than a limit on the size of files lets it be; one box is not.
  const std::uint64_t most = static_cast<std::uint64_t>(descriptors::FileSizeLimit());
  const int error = bytes == 0 ? 0 : descriptors::Allocate(fd, std::min(bytes, most));
  close(fd);
  return error == 0 ? "" : fmt::format("{}: no room for black boxes: {}", path, WhyNot(error));
}

// `joined`: the boxes there are the same job's, and count as its share, so that all its ranks come to one size. A
// quota may speak later than statfs: where there may be one, the room is tried with a real allocation.
RoomThere RoomFor(const std::string& path, const Need& need, bool joined) {
  RoomThere room;
  struct statfs space = {};
  if (statfs(path.c_str(), &space) != 0) {
    room.refusal = path + ": " + WhyNot(errno);
    return room;
  }
  const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * static_cast<std::uint64_t>(space.f_bsize);
  const Present present = joined ? BoxesIn(path) : Present{};
  const std::uint64_t ranks = std::max(need.ranks, present.boxes + 1);
  const auto limit = static_cast<std::uint64_t>(descriptors::FileSizeLimit());
  const auto fits = [&](std::uint64_t bytes) {
    return bytes <= limit && bytes <= free && bytes <= (free + present.bytes) / 2 / ranks;
  };
  const std::string bound =
      limit < need.sizes.front()
          ? fmt::format("{}: a file may have {} at most (ulimit -f); ", path, Mib(limit))
          : fmt::format("{}: {} free, of which at most half is taken; ", path, Mib(free + present.bytes));
  room.size = static_cast<std::size_t>(std::find_if(need.sizes.begin(), need.sizes.end(), fits) - need.sizes.begin());
  if (room.size == need.sizes.size()) {
    room.refusal = fmt::format("{}{} black boxes of at least {} needed", bound, ranks, Mib(need.sizes.back()));
    return room;
  }
  const std::uint64_t bytes = need.sizes[room.size];
  if (room.size > 0)
    room.shrunk = fmt::format("{}black boxes of {}, not {}", bound, Mib(bytes), Mib(need.sizes.front()));
  if (space.f_type != TMPFS_MAGIC) room.refusal = Try(path, present.boxes == 0 ? need.ranks * bytes : bytes);
  return room;
}

constexpr int kPatience_ms = 100;  // a removal is a few unlinks

// The descriptor may be of a directory that has been removed, or moved away to be, since it was opened.
bool IsAt(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

constexpr int kMostRuns = 1000;  // jobs that may share one NCCLWATCH_DIR before it is refused

struct Entered {
  std::string path;
  std::string top;
  std::string refusal;  // empty: entered
  std::string shrunk;   // not empty: why the box is not of the first size
  std::size_t size = 0;
  bool first = false;  // this process took it for the job
  bool taken = false;  // refused because it is another job's
  std::shared_ptr<const Hold> hold;
};

// Made or entered, and held: what another process removes in between is made again.
std::string EnterAndHold(const std::string& path, bool* made, std::shared_ptr<const Hold>* hold) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    const std::string refusal = Enter(path, made);
    if (!refusal.empty() && i + 1 == kTries) return refusal;
    if (!refusal.empty() && access(path.c_str(), F_OK) == 0) return refusal;
    bool removing = false;
    if (refusal.empty()) *hold = Hold::Of(path, &removing);
    if (*hold) return "";
    if (removing) break;
  }
  return path + ": is being removed";
}

// Takes one directory for the job or joins the ranks that have. Whoever comes first makes sure that all ranks of the
// node will find room, so that they do not scatter.
Entered EnterOne(const std::string& path, const std::string& job, const Need& need) {
  bool made = false;
  Entered entered;
  entered.path = entered.top = path;
  entered.refusal = EnterAndHold(path, &made, &entered.hold);
  if (!entered.refusal.empty()) return entered;
  const auto look = [&] {
    if (need.sizes.empty()) return;
    RoomThere room = RoomFor(path, need, JobOf(path) == job);
    entered.refusal = std::move(room.refusal);
    entered.shrunk = std::move(room.shrunk);
    entered.size = room.size;
  };
  if (JobOf(path) != job) {
    look();
    if (!entered.refusal.empty() && JobOf(path) != job) {
      if (made) rmdir(path.c_str());
      return entered;
    }
    entered.refusal.clear();
  }
  const Claim claim = ClaimFor(path, job);
  entered.first = claim == Claim::kMade;
  entered.taken = claim == Claim::kTaken;
  if (entered.taken) entered.refusal = path + " holds another job's black boxes";
  if (claim == Claim::kFailed) entered.refusal = path + ": cannot write";
  if (entered.refusal.empty() && !entered.first) look();
  return entered;
}

// The newest of a job's runs there: that there is one says that those before it are over, to all of its ranks.
int NewestRun(const std::string& place, const std::string& job) {
  int newest = 0;
  DIR* directory = descriptors::OpenDirectory(place);
  if (!directory) return newest;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (!name.starts_with("run-")) continue;
    const int run = std::atoi(name.c_str() + 4);
    if (run > newest && run < kMostRuns && JobOf(place + "/" + name) == job) newest = run;
  }
  closedir(directory);
  return newest;
}

Entered EnterPlace(const std::string& place, const Launch& launch, const std::vector<std::uint64_t>& sizes) {
  const Need need{launch.local_world_size > 0 ? static_cast<std::uint64_t>(launch.local_world_size) : 1, sizes};
  const bool later = launch.attempt > 0;
  Entered entered;
  for (int run = launch.own_launcher ? 0 : NewestRun(place, launch.job); run < kMostRuns; ++run) {
    const std::string name = fmt::format("run-{}", run);
    const std::string top = run == 0 ? place : place + "/" + name;
    entered = EnterOne(top, launch.job, later ? Need{} : need);
    if (entered.taken) continue;
    const bool may_be_over = !later && !launch.own_launcher;
    if (may_be_over && OfEarlierJob(LookAt(top, launch.rank))) continue;
    if (!entered.refusal.empty()) return entered;
    if (run > 0 && entered.first) PointLatest(place, name);
    if (later) {
      const std::shared_ptr<const Hold> hold = entered.hold;  // of the whole job
      const std::string attempt = fmt::format("attempt-{}", launch.attempt);
      entered = EnterOne(top + "/" + attempt, launch.job, need);
      entered.top = top;
      entered.hold = hold;
      if (entered.first) PointLatest(top, attempt);
      return entered;
    }
    return entered;
  }
  entered.refusal = place + ": too many runs in it";
  return entered;
}

// Without a slash at the end, which would make open() follow a link whatever the flags say.
std::string Absolute(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.front() == '/') return path;
  char here[PATH_MAX];
  return getcwd(here, sizeof(here)) ? std::string(here) + "/" + path : path;
}

std::string DefaultBase(const std::string& root) { return fmt::format("{}/ncclwatch-{}", root, geteuid()); }

void Append(std::string* reasons, const std::string& reason) {
  if (!reasons->empty()) *reasons += "; ";
  *reasons += reason;
}

Made MadeOf(const Entered& entered, bool by_name) {
  Made made;
  made.path = entered.path;
  made.top = entered.top;
  made.size = entered.size;
  made.by_name = by_name;
  if (entered.first) made.remark = entered.shrunk;
  made.hold = entered.hold;
  return made;
}

std::variant<Made, Refused> MakeThrowing(const settings::Settings& settings, const Launch& launch,
                                         const std::vector<std::uint64_t>& sizes) {
  std::string reasons;
  if (!settings.directory.empty()) {
    const std::string directory = Absolute(settings.directory);
    const Entered entered = EnterPlace(directory, launch, sizes);
    if (entered.refusal.empty()) {
      Made made = MadeOf(entered, true);
      if (entered.first && entered.path.starts_with(directory + "/run-"))
        made.remark = fmt::format("{} holds another job's black boxes; using {}", directory, entered.path);
      return made;
    }
    Append(&reasons, entered.refusal);
  }
  for (const std::string& base : DefaultBases()) {
    bool made = false;
    const std::string refusal = Enter(base, &made);
    if (!refusal.empty()) {
      Append(&reasons, refusal);
      continue;
    }
    const Entered entered = EnterPlace(base + "/" + launch.job, launch, sizes);
    if (!entered.refusal.empty()) {
      Append(&reasons, entered.refusal);
      continue;
    }
    if (entered.first) PointLatest(base, launch.job);
    Made here = MadeOf(entered, false);
    if (entered.first && !reasons.empty()) here.remark = fmt::format("{}; using {}", reasons, entered.path);
    return here;
  }
  return Refused{reasons};
}

}  // namespace

std::shared_ptr<const Hold> Hold::Of(const std::string& path, bool* removing) {
  *removing = false;
  const int fd = descriptors::Open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return nullptr;
  std::shared_ptr<const Hold> hold(new Hold(fd));
  for (int i = 0; flock(fd, LOCK_SH | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    *removing = i == kPatience_ms;
    if (*removing) return nullptr;
    usleep(1000);
  }
  return IsAt(fd, path) ? hold : nullptr;
}

Hold::~Hold() { close(fd_); }

std::vector<std::string> DefaultBases() {
  std::vector<std::string> bases = {DefaultBase("/dev/shm")};
  const char* temporary = std::getenv("TMPDIR");
  if (temporary && *temporary == '/') bases.push_back(DefaultBase(temporary));
  if (bases.back() != DefaultBase("/tmp")) bases.push_back(DefaultBase("/tmp"));
  return bases;
}

std::variant<Made, Refused> Make(const settings::Settings& settings, const Launch& launch,
                                 const std::vector<std::uint64_t>& sizes) {
  try {
    return MakeThrowing(settings, launch, sizes);
  } catch (const std::exception& error) {
    return Refused{error.what()};
  }
}

}  // namespace ncclwatch::rundir
