#include "core/reader/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchdog/descriptors/high.h"

namespace ncclwatch::reader {

// O_NONBLOCK: opening a pipe that somebody put in the run directory must not wait for its other end.
File::File(const std::string& path) : File(descriptors::Open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}

File::File(const descriptors::Directory& directory, const std::string& name)
    : File(directory.Open(name, O_RDONLY | O_NONBLOCK)) {}

File::File(int descriptor) : descriptor_(descriptor) {
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    reason_ = errno == ELOOP ? "a link: not followed" : std::string("cannot be opened: ") + ::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    reason_ = S_ISDIR(status.st_mode) ? "is a directory" : "not a regular file";
  } else {
    bytes_ = static_cast<std::uint64_t>(status.st_size);
    inode_ = status.st_ino;
  }
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t File::ReadAt(std::uint64_t offset, void* to, std::size_t bytes) const {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t part =
        ::pread(descriptor_, static_cast<char*>(to) + got, bytes - got, static_cast<off_t>(offset + got));
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    got += static_cast<std::size_t>(part);
  }
  return got;
}

}  // namespace ncclwatch::reader
