#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/details/log_msg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "watchdog/descriptors/limited_write.h"
#include "watchdog/log/log.h"
#include "watchdog/log/sinks.h"

namespace ncclwatch::log {
namespace {

constexpr off_t kMostBytes = 1 << 20;  // of the file, which all processes of the node share; there are two

// gmtime() takes a lock, which a child of fork() may find taken for ever.
std::string Time(std::chrono::system_clock::time_point time) {
  const auto midnight = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(midnight);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::milliseconds>(time - midnight));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

std::string_view LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::err: return "error";
    case spdlog::level::warn: return "warn";
    case spdlog::level::info: return "info";
    default: return "debug";
  }
}

bool IsFull(const struct stat& file, std::size_t more) { return file.st_size + static_cast<off_t>(more) > kMostBytes; }

// One process alone renames a full file: the second would put the new one in the place of the old one.
void Rotate(const descriptors::Directory& directory, int fd, const struct stat& file) {
  struct stat named {};
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return;
  if (directory.Stat(kFile, &named) && named.st_ino == file.st_ino && named.st_dev == file.st_dev)
    directory.Rename(kFile, kOlderFile);
}

int OpenFile(const descriptors::Directory& directory, struct stat* file) {
  const int fd = directory.Open(kFile, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0600);
  if (fd >= 0 && fstat(fd, file) == 0 && S_ISREG(file->st_mode)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace

void FileSink::KeepIn(const descriptors::Directory& directory) {
  directory_.store(new descriptors::Directory(directory), std::memory_order_release);
}

void FileSink::log(const spdlog::details::log_msg& message) {
  const descriptors::Directory* const directory = directory_.load(std::memory_order_acquire);
  if (!directory) return;
  const std::string prefix =
      fmt::format("{} pid {} {} {}", Time(message.time), getpid(), LevelName(message.level), writer_->Prefix());
  const std::string lines = Lines({message.payload.data(), message.payload.size()}, prefix);

  struct stat file {};
  int fd = OpenFile(*directory, &file);
  if (fd >= 0 && IsFull(file, lines.size())) {
    Rotate(*directory, fd, file);
    close(fd);
    fd = OpenFile(*directory, &file);
  }
  if (fd < 0) return;
  descriptors::WriteAll(fd, lines);
  close(fd);
}

}  // namespace ncclwatch::log
