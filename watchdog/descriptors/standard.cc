#include "watchdog/descriptors/standard.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "watchdog/descriptors/harmless_write.h"

namespace ncclwatch::descriptors {
namespace {

StandardFile Look(int fd) {
  struct stat is {};
  if (fstat(fd, &is) != 0) return {};
  return {true, is.st_mode & S_IFMT, is.st_dev, is.st_ino, is.st_rdev};
}

long System(long number, long a, long b, long c, long d) {
  const long result = syscall(number, a, b, c, d);
  return result < 0 ? -errno : result;
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
    const long n =
        WriteHarmless(System, STDERR_FILENO, lines.data(), std::min<std::size_t>(lines.size(), PIPE_BUF), patience_ms);
    if (n == -EINTR) continue;
    if (n <= 0) break;
    lines.remove_prefix(static_cast<std::size_t>(n));
  }
  errno = kept;
}

}  // namespace ncclwatch::descriptors
