#include "watchdog/descriptors/high.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace ncclwatch::descriptors {

int MoveHigh(int fd) {
  constexpr int kHighDescriptor = 512;
  if (fd < 0) return fd;
  const int error = errno;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kHighDescriptor);
  if (high >= 0) close(fd);
  errno = error;
  return high < 0 ? fd : high;
}

int Open(const std::string& path, int flags, mode_t mode) { return MoveHigh(open(path.c_str(), flags, mode)); }

DIR* OpenDirectory(const std::string& path) {
  const int fd = Open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* const directory = fdopendir(fd);
  if (!directory) close(fd);
  return directory;
}

}  // namespace ncclwatch::descriptors
