#include "watchdog/settings/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ncclwatch::settings {
namespace {

// open(), read() and close() of the C library are points of cancellation; the system calls themselves are not.
long ReadOnce(int fd, char* to, std::size_t bytes) {
  long got;
  do got = syscall(SYS_read, fd, to, bytes);
  while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

PlainFile ReadPlain(const char* path, std::size_t most, bool follow) {
  const int saved = errno;
  PlainFile file;
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW);
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, 0));
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) file.error = errno;
  file.regular = S_ISREG(status.st_mode);
  file.owner = status.st_uid;
  file.mode = status.st_mode & 07777;
  char buffer[4096];
  while (file.error == 0 && file.regular) {
    const long got = ReadOnce(fd, buffer, sizeof buffer);
    if (got < 0) file.error = errno;
    if (got <= 0) break;
    file.text.append(buffer, static_cast<std::size_t>(got));
    if (file.text.size() > most) file.error = EFBIG;
  }
  if (fd >= 0) syscall(SYS_close, fd);
  errno = saved;
  return file;
}

std::string ReadLink(const char* path) {
  const int saved = errno;
  char target[4096];
  const long got = syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof target);
  errno = saved;
  return got > 0 && got < static_cast<long>(sizeof target) ? std::string(target, static_cast<std::size_t>(got)) : "";
}

}  // namespace ncclwatch::settings
