#include "watchdog/rundir/place.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::rundir {
namespace {

constexpr char kJobFile[] = "/job";

std::string ErrorText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));
}

bool MakeParents(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (mkdir(path.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
      return false;
  return true;
}

void AddBox(const std::string& path, std::int32_t rank, Boxes* boxes) {
  const int fd = descriptors::Open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  alignas(format::Header) unsigned char page[sizeof(format::Header)];
  const auto* header = reinterpret_cast<const format::Header*>(page);
  const bool whole = pread(fd, page, sizeof(page), 0) == static_cast<ssize_t>(sizeof(page)) &&
                     std::memcmp(header->magic, format::kMagic, sizeof(header->magic)) == 0;
  struct flock lock = {};
  lock.l_type = F_RDLCK;  // conflicts with the writer's lock, and needs no descriptor open for writing
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  const bool alive = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  ++boxes->all;
  boxes->alive += alive;
  if (!whole) return;
  if (rank >= 0 && header->identity.rank == rank && header->identity.pid != static_cast<std::uint32_t>(getpid()))
    (alive ? boxes->same_rank_alive : boxes->same_rank) = true;
  const std::int64_t heartbeat = header->heartbeat_ns.load(std::memory_order_relaxed);
  if (heartbeat > boxes->last_heartbeat_ns) boxes->last_heartbeat_ns = heartbeat;
  const std::int64_t realtime = heartbeat + header->clock.realtime_minus_monotonic_ns.load(std::memory_order_relaxed);
  if (realtime > boxes->last_realtime_ns) boxes->last_realtime_ns = realtime;
}

std::int64_t OwnStart() {  // CLOCK_MONOTONIC
  const std::optional<ProcessStat> self = StatOf(getpid());
  if (!self) return INT64_MIN;
  timespec boot = {}, monotonic = {};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  const std::int64_t slept = (boot.tv_sec - monotonic.tv_sec) * 1'000'000'000 + (boot.tv_nsec - monotonic.tv_nsec);
  return static_cast<std::int64_t>(self->start_time) * (1'000'000'000 / sysconf(_SC_CLK_TCK)) - slept;
}

}  // namespace

std::string Enter(const std::string& path, bool* made) {
  *made = false;
  if (!MakeParents(path)) return path + ": " + ErrorText(errno);
  if (mkdir(path.c_str(), 0700) == 0)
    *made = true;
  else if (errno != EEXIST)
    return path + ": " + ErrorText(errno);
  const int fd = descriptors::Open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return path + (errno == ELOOP || errno == ENOTDIR ? ": a link or not a directory" : ": " + ErrorText(errno));
  struct stat info = {};
  const bool known = fstat(fd, &info) == 0;
  close(fd);
  if (!known || info.st_uid != geteuid()) return path + ": belongs to somebody else";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return path + ": others may write to it";
  if (access(path.c_str(), W_OK | X_OK) != 0) return path + ": " + ErrorText(errno);
  return "";
}

std::string Room(const std::string& path, std::uint64_t bytes) {
  struct statfs space = {};
  if (statfs(path.c_str(), &space) != 0) return path + ": " + ErrorText(errno);
  const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * static_cast<std::uint64_t>(space.f_bsize);
  if (free < bytes)
    return path + ": " + std::to_string(free >> 20) + " MiB free, " + std::to_string((bytes >> 20) + 1) + " needed";
  if (space.f_type == TMPFS_MAGIC) return "";
  const std::string trial = path + "/.trial." + std::to_string(getpid());
  const int fd = descriptors::Open(trial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return path + ": " + ErrorText(errno);
  unlink(trial.c_str());
  int error = 0;
  while (bytes > 0 && (error = posix_fallocate(fd, 0, static_cast<off_t>(bytes))) == EINTR) {
  }
  close(fd);
  return error == 0 ? "" : path + ": no room for black boxes: " + ErrorText(error);
}

Boxes LookAt(const std::string& path, std::int32_t rank) {
  Boxes boxes;
  DIR* directory = descriptors::OpenDirectory(path);
  if (!directory) return boxes;
  while (const dirent* entry = readdir(directory))
    if (std::string_view(entry->d_name).ends_with(format::kBoxSuffix)) AddBox(path + "/" + entry->d_name, rank, &boxes);
  closedir(directory);
  return boxes;
}

bool OfEarlierJob(const Boxes& boxes) {
  if (boxes.same_rank_alive) return true;
  // All dead, and either this rank has been there already, or they were gone before this process began.
  return boxes.all > 0 && boxes.alive == 0 && (boxes.same_rank || boxes.last_heartbeat_ns < OwnStart());
}

std::string JobOf(const std::string& path) {
  std::string job = ReadSmall(path + kJobFile, 256).value_or("");
  const std::size_t end = job.find('\n');
  if (end != std::string::npos) job.resize(end);
  return job;
}

Claim ClaimFor(const std::string& path, const std::string& job) {
  const std::string named = path + kJobFile;
  struct stat info = {};
  if (lstat(named.c_str(), &info) == 0) return JobOf(path) == job ? Claim::kJoined : Claim::kTaken;
  // Boxes that no job claims (copied evidence) are another job's.
  if (LookAt(path, -1).all > 0 && lstat(named.c_str(), &info) != 0) return Claim::kTaken;
  const std::string draft = named + "." + std::to_string(getpid());
  unlink(draft.c_str());
  const int fd = descriptors::Open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return Claim::kFailed;
  const std::string line = job + "\n";
  const bool whole = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  close(fd);
  // link() fails where the name exists: the exclusive creation, but with the content already inside.
  const bool first = whole && link(draft.c_str(), named.c_str()) == 0;
  const int error = errno;
  unlink(draft.c_str());
  if (first) return Claim::kMade;
  if (!whole || error != EEXIST) return Claim::kFailed;
  return JobOf(path) == job ? Claim::kJoined : Claim::kTaken;
}

void PointLatest(const std::string& parent, const std::string& name) {
  const std::string draft = parent + "/.latest." + std::to_string(getpid());
  unlink(draft.c_str());
  if (symlink(name.c_str(), draft.c_str()) != 0) return;
  if (rename(draft.c_str(), (parent + "/latest").c_str()) != 0) unlink(draft.c_str());
}

}  // namespace ncclwatch::rundir
