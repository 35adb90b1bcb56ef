#include "analyzer/files/input_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

namespace ncclwatch::analyzer {
namespace {

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::StatusOr<Descriptor> OpenWithin(const std::string& path, std::uint64_t most_bytes) {
  if (path == kStandardStream) return Descriptor(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  auto file = OpenRegular(path);
  struct stat info {};
  if (file.ok() && fstat(file->get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > most_bytes)
    return absl::ResourceExhaustedError(absl::StrCat(path, ": it is larger than ", most_bytes, " bytes"));
  return file;
}

}  // namespace

absl::StatusOr<Descriptor> OpenRegular(const std::string& path) {
  // Looked at before it is opened: opening may already do something, as with a tape or a watchdog.
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  const auto refuse = [&](mode_t mode) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": it is ", KindOf(mode), "; only regular files are read"));
  };
  if (!S_ISREG(info.st_mode)) return refuse(info.st_mode);
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file || fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return refuse(info.st_mode);
  return file;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most_bytes) {
  InputFile file(path, most_bytes);
  if (!file.status().ok()) return file.status();
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() > most_bytes)
    return absl::ResourceExhaustedError(absl::StrCat(path, ": it is larger than ", most_bytes, " bytes"));
  return text;
}

InputFile::InputFile(const std::string& path, std::uint64_t most_bytes) : std::istream(nullptr) {
  auto file = OpenWithin(path, most_bytes);
  if (file.ok())
    buffer_ = __gnu_cxx::stdio_filebuf<char>(file->Release(), std::ios::in | std::ios::binary, 1 << 16);
  else
    status_ = file.status();
  rdbuf(&buffer_);
  if (!status_.ok()) setstate(std::ios::failbit);
}

}  // namespace ncclwatch::analyzer
