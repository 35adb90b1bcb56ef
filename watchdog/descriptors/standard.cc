#include "watchdog/descriptors/standard.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "watchdog/descriptors/limited_write.h"

namespace ncclwatch::descriptors {
namespace {

StandardFile Look(int fd) {
  struct stat is {};
  if (fstat(fd, &is) != 0) return {};
  return {true, is.st_mode & S_IFMT, is.st_dev, is.st_ino, is.st_rdev};
}

StandardFile as_loaded[3];

// Before the program runs, which may close them at once.
[[gnu::constructor]] void AtLoad() { RememberStandardFiles(); }

}  // namespace

void RememberStandardFiles() {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) as_loaded[fd] = Look(fd);
}

void RememberStandardFile(int fd, const StandardFile& file) { as_loaded[fd] = file; }

bool IsAsLoaded(int fd) { return as_loaded[fd].open && as_loaded[fd] == Look(fd); }

void WriteLines(std::string_view lines, int patience_ms) {
  const int kept = errno;
  if (!IsAsLoaded(STDERR_FILENO)) lines = {};
  while (!lines.empty()) {
    // A write to a full pipe would hold up the host, and one to a pipe without a reader would end it with SIGPIPE.
    pollfd ready = {STDERR_FILENO, POLLOUT, 0};
    const int polled = poll(&ready, 1, patience_ms);
    if (polled < 0 && errno == EINTR) continue;
    if (polled != 1 || ready.revents != POLLOUT) break;
    if (!MayGrow(STDERR_FILENO, std::min<std::size_t>(lines.size(), PIPE_BUF))) break;
    // A pipe with room has room for this much; a longer write could be stuck half way.
    const ssize_t n = write(STDERR_FILENO, lines.data(), std::min<std::size_t>(lines.size(), PIPE_BUF));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    lines.remove_prefix(static_cast<std::size_t>(n));
  }
  errno = kept;
}

}  // namespace ncclwatch::descriptors
