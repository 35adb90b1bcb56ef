#include "watchdog/act/system_log.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "watchdog/descriptors/high.h"

namespace ncclwatch::act {
namespace {

constexpr int kDaemon = 3, kNotice = 5;
constexpr std::size_t kMostText = 900;  // older daemons cut at 1024 bytes

template <std::size_t size>
std::string Text(const char (&field)[size]) {
  return std::string(field, strnlen(field, size));
}

}  // namespace

void TellSystemLog(std::string_view text, const char* path) {
  const int saved = errno;
  // Without a time: the daemon adds its own, and to write one in local time would touch the host's time zone.
  std::string line = fmt::format("<{}>ncclwatch[{}]: ", kDaemon * 8 + kNotice, getpid());
  for (const char c : text.substr(0, kMostText)) line += static_cast<unsigned char>(c) >= ' ' && c != 127 ? c : ' ';
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int fd = descriptors::MoveHigh(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd >= 0) {
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      static_cast<void>(send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    close(fd);
  }
  errno = saved;
}

void TellSystemLog(const format::Identity& who, std::string_view what) {
  const std::string attempt = who.attempt > 0 ? fmt::format(" attempt {}", who.attempt) : "";
  const std::string rank = who.rank >= 0 ? fmt::format(", rank {}", who.rank) : "";
  TellSystemLog(fmt::format("job {}{}{}, uid {}: {}", Text(who.job), attempt, rank, who.uid, what));
}

}  // namespace ncclwatch::act
