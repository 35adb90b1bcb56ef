#include "watchdog/rundir/room.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/descriptors/limited_write.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::rundir {
namespace {

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

}  // namespace

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

}  // namespace ncclwatch::rundir
