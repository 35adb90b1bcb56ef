#include "analyzer/files/output_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "analyzer/files/input_file.h"
#include "watchdog/act/files.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr char kOpenFiles[] = "/proc/self/fd";
constexpr mode_t kOthersMayLink = S_ISVTX | S_IWOTH;  // as /tmp

// Where the file is to be. A link of somebody else's in a folder like /tmp would choose what we overwrite
// (protected_symlinks of the kernel, which does not see a link that is resolved here).
absl::Status Resolve(const std::string& path, std::string* target) {
  struct stat link {};
  *target = path;
  if (lstat(path.c_str(), &link) != 0 || !S_ISLNK(link.st_mode)) return absl::OkStatus();
  const fs::path folder = fs::path(path).parent_path();
  struct stat above {};
  if (stat(folder.empty() ? "." : folder.c_str(), &above) != 0) return absl::ErrnoToStatus(errno, path);
  if (link.st_uid != geteuid() && link.st_uid != 0 && (above.st_mode & kOthersMayLink) == kOthersMayLink)
    return absl::PermissionDeniedError(path + ": it is a link that another user has made");
  std::error_code error;
  *target = fs::canonical(path, error);
  if (error == std::errc::no_such_file_or_directory)  // the link leads to a file that is yet to be made
    *target = folder / fs::read_symlink(path, error);
  return error ? absl::UnavailableError(absl::StrCat(path, ": ", error.message())) : absl::OkStatus();
}

// A folder, or a link to one, that another user has made where everybody may: what we write there would be theirs to
// remove, to replace, and to find.
absl::Status IsPlanted(const std::string& folder) {
  struct stat there {};
  struct stat above {};
  if (lstat(folder.c_str(), &there) != 0 || there.st_uid == geteuid() || there.st_uid == 0) return absl::OkStatus();
  const fs::path parent = fs::path(folder).parent_path();
  const bool shared = stat(parent.empty() ? "." : parent.c_str(), &above) == 0 && (above.st_mode & S_IWOTH) != 0;
  const bool open = !S_ISLNK(there.st_mode) && (there.st_mode & S_IWOTH) != 0;
  if (!shared && !open) return absl::OkStatus();
  return absl::PermissionDeniedError(folder + ": another user has made it, in a place where everybody may write");
}

}  // namespace

OutputFile::~OutputFile() {
  if (!draft_.empty()) unlink(draft_.c_str());
}

absl::Status OutputFile::Fail(const absl::Status& status) { return status_ = status; }

absl::Status OutputFile::Open(const std::string& path, How how) {
  path_ = path;
  bytes_ = 0;
  target_.clear();
  status_ = absl::OkStatus();
  struct stat there {};
  if (how == How::kAppend) {
    file_ = Descriptor(open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file_ || fstat(file_.get(), &there) != 0) return Fail(absl::ErrnoToStatus(errno, path));
    return S_ISREG(there.st_mode) ? absl::OkStatus() : Fail(absl::InvalidArgumentError(path + ": no regular file"));
  }
  if (path == kStandardStream) {
    // A duplicate: closing it leaves the command's own open.
    file_ = Descriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    return file_ ? absl::OkStatus() : Fail(absl::ErrnoToStatus(errno, "standard output"));
  }
  if (stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode)) return OpenDraft(path);
  file_ = Descriptor(open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  return file_ ? absl::OkStatus() : Fail(absl::ErrnoToStatus(errno, path));
}

absl::Status OutputFile::OpenDraft(const std::string& path) {
  if (absl::Status resolved = Resolve(path, &target_); !resolved.ok()) return Fail(resolved);
  // Without a name until it is whole, where the file system has that: a signal that ends the command leaves nothing.
  const fs::path folder = fs::path(target_).parent_path();
  if (access(kOpenFiles, X_OK) == 0)
    file_ = Descriptor(open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file_) return absl::OkStatus();
  std::string name = absl::StrCat(target_, ".draft.XXXXXX");
  file_ = Descriptor(mkostemp(name.data(), O_CLOEXEC));  // O_EXCL, 0600
  if (!file_) return Fail(absl::ErrnoToStatus(errno, path));
  draft_ = name;
  return absl::OkStatus();
}

bool OutputFile::NameDraft() {
  constexpr int kTries = 100;
  if (!draft_.empty()) return true;
  const std::string source = absl::StrCat(kOpenFiles, "/", file_.get());
  for (int i = 0; i < kTries; ++i) {
    std::string name = absl::StrCat(target_, ".draft.", getpid(), ".", i);
    if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      draft_ = std::move(name);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

absl::Status OutputFile::Write(std::string_view bytes) {
  bytes_ += bytes.size();
  buffer_.append(bytes);
  return buffer_.size() < kBufferBytes ? status_ : Flush();
}

absl::Status OutputFile::Flush() {
  for (std::string_view left = buffer_; status_.ok() && !left.empty();) {
    const ssize_t count = write(file_.get(), left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(absl::ErrnoToStatus(errno, path_));
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  buffer_.clear();
  return status_;
}

absl::Status OutputFile::Close(unsigned mode) {
  Flush().IgnoreError();
  if (status_.ok() && !target_.empty()) {
    if (fchmod(file_.get(), mode) != 0 || !NameDraft() || std::rename(draft_.c_str(), target_.c_str()) != 0)
      Fail(absl::ErrnoToStatus(errno, path_)).IgnoreError();
    else
      draft_.clear();
  }
  file_ = Descriptor();
  return status_;
}

absl::Status WriteFile(const std::string& path, std::string_view content, unsigned mode) {
  OutputFile file;
  if (absl::Status status = file.Open(path); !status.ok()) return status;
  file.Write(content).IgnoreError();
  return file.Close(mode);
}

absl::Status MakeFolders(const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (absl::Status planted = IsPlanted(folder); !planted.ok()) return planted;
  const std::string error = act::MakeDirectories(folder);
  std::error_code ignored;
  if (error.empty() && !fs::is_directory(folder, ignored))
    return absl::AlreadyExistsError(folder + ": it is no folder");
  return error.empty() ? absl::OkStatus() : absl::PermissionDeniedError(error);
}

}  // namespace ncclwatch::analyzer
