#include "watchdog/descriptors/standard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "watchdog/descriptors/high.h"

namespace ncclwatch::descriptors {
namespace {

constexpr off_t kMostLog = 1 << 20;  // bytes: beyond them lines are lost

StandardFile Look(int fd) {
  struct stat is {};
  if (fstat(fd, &is) != 0) return {};
  return {true, is.st_mode & S_IFMT, is.st_dev, is.st_ino, is.st_rdev};
}

StandardFile as_loaded[3];
std::atomic<const char*> log_path{nullptr};

// Before the program runs, which may close them at once.
[[gnu::constructor]] void AtLoad() { RememberStandardFiles(); }

void WriteToLog(std::string_view lines) {
  const char* const path = log_path.load(std::memory_order_acquire);
  if (!path) return;
  const int fd = Open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return;
  struct stat log {};
  const bool takes_more = fstat(fd, &log) == 0 && S_ISREG(log.st_mode) && log.st_size < kMostLog;
  if (takes_more && write(fd, lines.data(), lines.size()) < 0) errno = 0;
  close(fd);
}

}  // namespace

void RememberStandardFiles() {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) as_loaded[fd] = Look(fd);
}

void RememberStandardFile(int fd, const StandardFile& file) { as_loaded[fd] = file; }

bool IsAsLoaded(int fd) { return as_loaded[fd].open && as_loaded[fd] == Look(fd); }

// The one before is not freed: another thread may be writing to it.
void LogInto(const std::string& directory) {
  log_path.store(strdup((directory + "/" + kLogName).c_str()), std::memory_order_release);
}

void WriteLines(std::string_view lines, int patience_ms) {
  const int kept = errno;
  if (!IsAsLoaded(STDERR_FILENO)) {
    WriteToLog(lines);
    lines = {};
  }
  while (!lines.empty()) {
    // A write to a full pipe would hold up the host, and one to a pipe without a reader would end it with SIGPIPE.
    pollfd ready = {STDERR_FILENO, POLLOUT, 0};
    const int polled = poll(&ready, 1, patience_ms);
    if (polled < 0 && errno == EINTR) continue;
    if (polled != 1 || ready.revents != POLLOUT) break;
    // A pipe with room has room for this much; a longer write could be stuck half way.
    const ssize_t n = write(STDERR_FILENO, lines.data(), std::min<std::size_t>(lines.size(), PIPE_BUF));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    lines.remove_prefix(static_cast<std::size_t>(n));
  }
  errno = kept;
}

}  // namespace ncclwatch::descriptors
