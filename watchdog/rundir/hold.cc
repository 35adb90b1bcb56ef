#include "watchdog/rundir/hold.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "watchdog/descriptors/high.h"

namespace ncclwatch::rundir {
namespace {

constexpr int kPatience_ms = 100;  // a removal is a few unlinks

// The descriptor may be of a directory that has been removed, or moved away to be, since it was opened.
bool IsAt(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
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

}  // namespace ncclwatch::rundir
