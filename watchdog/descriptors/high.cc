#include "watchdog/descriptors/high.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ncclwatch::descriptors {

namespace {

// A program that closes all descriptors between our two calls may have opened another file under this number since.
bool IsSameFile(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

}  // namespace

int MoveHigh(int fd) {
  constexpr int kHighDescriptor = 512;
  if (fd < 0) return fd;
  const int error = errno;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kHighDescriptor);
  if (high >= 0 && IsSameFile(fd, high)) close(fd);
  errno = error;
  return high < 0 ? fd : high;
}

int Open(const std::string& path, int flags, mode_t mode) {
  constexpr int kTries = 3;
  int fd = -1;
  for (int i = 0; i < kTries; ++i) {
    fd = MoveHigh(open(path.c_str(), flags, mode));
    if (fd < 0 || (flags & O_EXCL) != 0 || fcntl(fd, F_GETFD) >= 0) break;  // not closed meanwhile by the program
  }
  return fd;
}

DIR* OpenDirectory(const std::string& path) {
  const int fd = Open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* const directory = fdopendir(fd);
  if (!directory) close(fd);
  return directory;
}

}  // namespace ncclwatch::descriptors
