#include "watchdog/rundir/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/high.h"

namespace ncclwatch::rundir {
namespace {

// Takes over the descriptor.
std::optional<std::string> ReadAll(int fd, std::size_t limit) {
  if (fd < 0) return std::nullopt;
  std::string text;
  char buffer[4096];
  bool whole = true;
  while (text.size() < limit) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) whole = !text.empty();
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(fd);
  if (!whole) return std::nullopt;
  if (text.size() > limit) text.resize(limit);
  return text;
}

}  // namespace

std::optional<std::string> ReadSmall(const std::string& path, std::size_t limit) {
  return ReadAll(descriptors::Open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), limit);
}

std::optional<std::string> ReadSmall(const descriptors::Directory& directory, const std::string& name,
                                     std::size_t limit) {
  struct stat info = {};
  if (!directory.Stat(name, &info) || !S_ISREG(info.st_mode)) return std::nullopt;
  return ReadAll(directory.Open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK), limit);
}

std::optional<ProcessStat> StatOf(std::int32_t pid) {
  const std::optional<std::string> text = ReadSmall(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text) return std::nullopt;
  // The name may hold spaces and brackets: the fields begin after the last bracket.
  const std::size_t bracket = text->rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= text->size()) return std::nullopt;
  ProcessStat stat;
  const char* at = text->c_str() + bracket + 2;
  stat.state = *at++;
  for (int field = 4; *at; ++field) {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(at, &end, 10);  // negative ones wrap back in the casts
    if (end == at) break;
    at = end;
    if (field == 4) stat.parent = static_cast<std::int32_t>(value);
    if (field == 5) stat.group = static_cast<std::int32_t>(value);
    if (field == 6) stat.session = static_cast<std::int32_t>(value);
    if (field == 22) stat.start_time = value;
    if (field == 52) stat.exit_code = static_cast<std::int32_t>(value);
  }
  return stat.start_time ? std::optional<ProcessStat>(stat) : std::nullopt;
}

std::optional<std::string> EnvironmentOf(std::int32_t pid) { return ReadSmall(fmt::format("/proc/{}/environ", pid)); }

std::optional<std::string_view> Find(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::size_t end = environment.find('\0');
    const std::string_view entry = environment.substr(0, end);
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.substr(0, name.size()) == name)
      return entry.substr(name.size() + 1);
    if (end == std::string_view::npos) break;
    environment.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::uint64_t PidNamespace() {
  struct stat space {};
  return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

std::string OwnPid() { return fmt::format("{}.{}", getpid(), PidNamespace()); }

std::string HostName() {
  utsname names = {};
  if (uname(&names) != 0 || names.nodename[0] == '\0') return "localhost";
  return std::string(names.nodename).substr(0, sizeof format::Identity::host - 1);
}

std::string BootId() {
  std::string text = ReadSmall("/proc/sys/kernel/random/boot_id", 64).value_or("");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

}  // namespace ncclwatch::rundir
