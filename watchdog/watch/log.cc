#include "watchdog/watch/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace ncclwatch::watch {

Log::Log(settings::LogLevel level, std::int32_t rank)
    : level_(level), prefix_("[ncclwatch rank " + (rank >= 0 ? std::to_string(rank) : std::string("?")) + "] ") {}

void Log::Say(settings::LogLevel level, std::string_view text) const {
  if (level > level_) return;
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines += prefix_;
    lines += text.substr(0, end);
    lines += '\n';
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  for (std::size_t done = 0; done < lines.size();) {
    // A full pipe that nobody reads must not stop the heartbeat: after half a second the rest is dropped.
    pollfd ready = {STDERR_FILENO, POLLOUT, 0};
    if (poll(&ready, 1, 500) != 1 || !(ready.revents & POLLOUT)) return;
    // A pipe with room has room for this much; a longer write could be stuck half way.
    const ssize_t n = write(STDERR_FILENO, lines.data() + done, std::min<std::size_t>(lines.size() - done, PIPE_BUF));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace ncclwatch::watch
