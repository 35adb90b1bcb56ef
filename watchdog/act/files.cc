#include "watchdog/act/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "watchdog/descriptors/limited_write.h"

namespace ncclwatch::act {
namespace {

constexpr std::size_t kChunk = 1 << 20;

std::string Why(const std::string& path, int error) {
  char buffer[128];
  return path + ": " + strerror_r(error, buffer, sizeof(buffer));
}

}  // namespace

Draft::Draft(const descriptors::Directory& directory, const std::string& name)
    : directory_(directory), name_(name), draft_(fmt::format("{}.draft.{}", name, getpid())) {
  directory_.Unlink(draft_);
  fd_ = directory_.Open(draft_, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd_ < 0) error_ = errno;
}

Draft::~Draft() {
  if (fd_ >= 0) close(fd_);
  if (fd_ >= 0 && !kept_) directory_.Unlink(draft_);
}

bool Draft::Write(std::string_view content) {
  if (error_ == 0 && !descriptors::WriteAll(fd_, content)) error_ = errno;
  return error_ == 0;
}

std::string Draft::Keep() {
  if (error_ == 0 && !directory_.Rename(draft_, name_)) error_ = errno;
  kept_ = error_ == 0;
  return kept_ ? "" : Why(directory_.PathOf(name_), error_);
}

std::string WriteFile(const descriptors::Directory& directory, const std::string& name, std::string_view content) {
  Draft draft(directory, name);
  draft.Write(content);
  return draft.Keep();
}

std::string CopyFile(const descriptors::Directory& from, const descriptors::Directory& to, const std::string& name) {
  const int fd = from.Open(name, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return Why(from.PathOf(name), errno);
  struct stat file {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
    close(fd);
    return from.PathOf(name) + ": it is no regular file";
  }
  Draft draft(to, name);
  const std::unique_ptr<char[]> chunk(new char[kChunk]);
  int error = 0;
  for (;;) {
    const ssize_t n = read(fd, chunk.get(), kChunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0 || !draft.Write({chunk.get(), static_cast<std::size_t>(n)})) break;
  }
  close(fd);
  return error ? Why(from.PathOf(name), error) : draft.Keep();
}

std::string MakeDirectories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && slash == std::string::npos) return Why(path, errno);
    if (slash == std::string::npos) return "";
  }
}

std::string MakeFolder(const descriptors::Directory& directory, const std::string& name) {
  return directory.MakeFolder(name) ? "" : Why(directory.PathOf(name), errno);
}

}  // namespace ncclwatch::act
