#include "watchdog/rundir/place.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/descriptors/limited_write.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::rundir {
namespace {

using descriptors::Directory;

constexpr char kJobFile[] = "job";

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

bool IsOwn(const format::Identity& identity) {
  if (identity.pid != static_cast<std::uint32_t>(getpid()) || identity.pid_namespace != PidNamespace()) return false;
  const std::optional<ProcessStat> self = StatOf(getpid());
  return self && self->start_time == identity.start_time;
}

// Has the process made a communicator with all ranks of its job? Then each of them has been there. Looks at the first
// few: the world comes first.
bool MadeWholeWorld(int fd, const format::Header& header) {
  constexpr std::uint32_t kLookedAt = 8;
  const auto& table = header.communicators;
  if (header.identity.world_size <= 1 || table.entry_bytes != sizeof(format::Communicator)) return false;
  for (std::uint32_t i = 0; i < std::min(table.count, kLookedAt); ++i) {
    alignas(format::Communicator) unsigned char entry[sizeof(format::Communicator)];
    const auto at = static_cast<off_t>(table.offset + std::uint64_t{i} * sizeof(entry));
    if (pread(fd, entry, sizeof(entry), at) != static_cast<ssize_t>(sizeof(entry))) return false;
    if (format::IsWholeWorld(*reinterpret_cast<const format::Communicator*>(entry), header.identity.world_size))
      return true;
  }
  return false;
}

void AddBox(const Directory& directory, const std::string& name, std::int32_t rank, Boxes* boxes) {
  const int fd = directory.Open(name, O_RDONLY | O_NONBLOCK);
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
  const bool world = whole && MadeWholeWorld(fd, *header);
  close(fd);
  ++boxes->all;
  boxes->alive += alive;
  if (!whole) return;
  if (IsOwn(header->identity)) {
    boxes->own = true;
  } else if (rank >= 0 && header->identity.rank == rank) {
    (alive ? boxes->same_rank_alive : boxes->same_rank) = true;
  }
  if (alive && header->identity.start_time > 0)
    boxes->oldest_alive = std::min(boxes->oldest_alive, header->identity.start_time);
  boxes->whole_world |= world;
  const std::int64_t heartbeat = header->heartbeat_ns.load(std::memory_order_relaxed);
  if (heartbeat > boxes->last_heartbeat_ns) boxes->last_heartbeat_ns = heartbeat;
  const std::int64_t realtime = heartbeat + header->clock.realtime_minus_monotonic_ns.load(std::memory_order_relaxed);
  if (realtime > boxes->last_realtime_ns) boxes->last_realtime_ns = realtime;
}

std::int64_t MonotonicOf(std::uint64_t start_time) {  // of /proc, ticks since boot
  timespec boot = {}, monotonic = {};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  const std::int64_t slept = (boot.tv_sec - monotonic.tv_sec) * 1'000'000'000 + (boot.tv_nsec - monotonic.tv_nsec);
  return static_cast<std::int64_t>(start_time) * (1'000'000'000 / sysconf(_SC_CLK_TCK)) - slept;
}

}  // namespace

std::string Enter(const std::string& path, bool* made) {
  *made = false;
  if (!MakeParents(path)) return path + ": " + ErrorText(errno);
  if (mkdir(path.c_str(), 0700) == 0)
    *made = true;
  else if (errno != EEXIST)
    return path + ": " + ErrorText(errno);
  const Directory directory = Directory::Own(path);
  if (!directory) return directory.reason();
  if (access(path.c_str(), W_OK | X_OK) != 0) return path + ": " + ErrorText(errno);
  return "";
}

Boxes LookAt(const std::string& path, std::int32_t rank) { return LookAt(Directory::Named(path), rank); }

Boxes LookAt(const Directory& directory, std::int32_t rank) {
  Boxes boxes;
  boxes.ranked = rank >= 0;
  DIR* entries = directory.List();
  if (!entries) return boxes;
  while (const dirent* entry = readdir(entries))
    if (std::string_view(entry->d_name).ends_with(format::kBoxSuffix)) AddBox(directory, entry->d_name, rank, &boxes);
  closedir(entries);
  return boxes;
}

// Ranks of one start begin within this of each other, whatever starts them. A survivor may have waited for the others
// of its run for any time.
constexpr std::int64_t kOneStart_ns = 600'000'000'000;

bool OfEarlierJob(const Boxes& boxes) {
  if (boxes.own) return false;  // from before an exec
  if (boxes.same_rank_alive) return true;
  if (boxes.all == 0) return false;
  // All ranks of their run have been there, and this process, which has a rank, has yet to come: whoever lives on is
  // a survivor.
  if (boxes.ranked && boxes.whole_world) return true;
  const std::optional<ProcessStat> self = StatOf(getpid());
  const std::int64_t own_start = self ? MonotonicOf(self->start_time) : INT64_MIN;
  if (boxes.alive > 0)
    return boxes.ranked && self && boxes.oldest_alive != kNobody &&
           own_start - MonotonicOf(boxes.oldest_alive) > kOneStart_ns;
  // All dead, and either this rank has been there already, or they were gone before this process began.
  return boxes.same_rank || boxes.last_heartbeat_ns < own_start;
}

std::string JobOf(const std::string& path) { return JobOf(Directory::Named(path)); }

std::string JobOf(const Directory& directory) {
  std::string job = ReadSmall(directory, kJobFile, 256).value_or("");
  const std::size_t end = job.find('\n');
  if (end != std::string::npos) job.resize(end);
  return job;
}

Claim ClaimFor(const std::string& path, const std::string& job) {
  const Directory directory = Directory::Own(path);
  struct stat info = {};
  if (directory.Stat(kJobFile, &info)) return JobOf(directory) == job ? Claim::kJoined : Claim::kTaken;
  // Boxes that no job claims (copied evidence) are another job's.
  if (LookAt(directory, -1).all > 0 && !directory.Stat(kJobFile, &info)) return Claim::kTaken;
  const std::string draft = std::string(kJobFile) + "." + OwnPid();
  directory.Unlink(draft);
  const int fd = directory.Open(draft, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return Claim::kFailed;
  const std::string line = job + "\n";
  const bool whole = descriptors::WriteAll(fd, line);
  close(fd);
  // link() fails where the name exists: the exclusive creation, but with the content already inside.
  const bool first = whole && directory.Link(draft, kJobFile);
  const int error = errno;
  directory.Unlink(draft);
  if (first) return Claim::kMade;
  if (!whole || error != EEXIST) return Claim::kFailed;
  return JobOf(directory) == job ? Claim::kJoined : Claim::kTaken;
}

void PointLatest(const std::string& parent, const std::string& name) {
  const std::string draft = parent + "/.latest." + OwnPid();
  unlink(draft.c_str());
  if (symlink(name.c_str(), draft.c_str()) != 0) return;
  if (rename(draft.c_str(), (parent + "/latest").c_str()) != 0) unlink(draft.c_str());
}

}  // namespace ncclwatch::rundir
