#include "watchdog/descriptors/limited_write.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ncclwatch::descriptors {

std::int64_t FileSizeLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur > static_cast<rlim_t>(INT64_MAX)) return INT64_MAX;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

bool MayGrow(int fd, std::uint64_t bytes) {
  const std::int64_t limit = FileSizeLimit();
  struct stat file {};
  if (limit == INT64_MAX || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return true;
  const bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
  const off_t at = appends ? file.st_size : lseek(fd, 0, SEEK_CUR);
  return at <= limit && bytes <= static_cast<std::uint64_t>(limit - at);
}

int Allocate(int fd, std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(FileSizeLimit())) return EFBIG;
  int error;
  do error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  return error;
}

bool WriteAll(int fd, std::string_view bytes) {
  if (!MayGrow(fd, bytes.size())) {
    errno = EFBIG;
    return false;
  }
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace ncclwatch::descriptors
