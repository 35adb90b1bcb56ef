#include "watchdog/descriptors/high.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ncclwatch::descriptors {

namespace {

bool AreSame(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// A program that closes all descriptors between our two calls may have opened another file under this number since.
bool IsSameFile(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && AreSame(of_a, of_b);
}

bool IsFileOf(int fd, int directory, const char* name, int flags) {
  struct stat of_fd {};
  struct stat of_name {};
  return fstat(fd, &of_fd) == 0 &&
         fstatat(directory, name, &of_name, (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0) == 0 &&
         AreSame(of_fd, of_name);
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

// Otherwise what is written would go to a file of the program's, of which the move has made a copy. After three tries
// it is the file system whose numbers differ, not the program that was quicker.
int OpenAt(int directory, const char* name, int flags, mode_t mode) {
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    const int low = openat(directory, name, flags, mode);
    if (low < 0) return low;
    const int fd = MoveHigh(low);
    if (i == kTries || IsFileOf(fd, directory, name, flags)) return fd;
    if (fd != low) close(fd);
    if ((flags & O_EXCL) != 0) flags = (flags & ~(O_CREAT | O_EXCL)) | O_NOFOLLOW;  // it exists now
  }
}

int Open(const std::string& path, int flags, mode_t mode) { return OpenAt(AT_FDCWD, path.c_str(), flags, mode); }

DIR* OpenDirectory(const std::string& path) {
  const int fd = Open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* const directory = fdopendir(fd);
  if (!directory) close(fd);
  return directory;
}

}  // namespace ncclwatch::descriptors
