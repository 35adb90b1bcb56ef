#include "watchdog/descriptors/directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "watchdog/descriptors/high.h"

namespace ncclwatch::descriptors {
namespace {

constexpr int kFolder = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

std::string ErrorText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));
}

// The number that stands in a small file of /proc behind `before` others; `otherwise` if there is none.
unsigned long NumberIn(const char* path, int before, unsigned long otherwise) {
  const int fd = Open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return otherwise;
  char text[128];
  const ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return otherwise;
  text[bytes] = '\0';
  char* at = text;
  for (; before > 0; --before) std::strtoul(at, &at, 10);
  char* end = at;
  const unsigned long number = std::strtoul(at, &end, 10);
  return end == at ? otherwise : number;
}

// In a user namespace that does not know the machine's root (rootless containers), what is root's shows as nobody's.
bool IsRootsFromOutside(uid_t uid) {
  constexpr unsigned long kAll = 4294967295;
  static const unsigned long nobody = NumberIn("/proc/sys/kernel/overflowuid", 0, 65534);
  static const unsigned long mapped = NumberIn("/proc/self/uid_map", 2, kAll);
  return mapped < kAll && uid == nobody;
}

bool IsOursOrRoots(uid_t uid) { return uid == geteuid() || uid == 0 || IsRootsFromOutside(uid); }

std::string WhyUnsafe(const struct stat& info, const std::string& path) {
  if (!IsOursOrRoots(info.st_uid)) return path + " belongs to somebody else, who could replace what lies in it";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (info.st_mode & S_ISVTX) == 0)
    return path + ": others may write to it, and could replace what lies in it (chmod go-w or +t)";
  return "";
}

struct Split {
  std::string parent, leaf;  // without links above the leaf
};

// False and errno if there is no such directory above.
bool Resolve(std::string path, Split* split) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  std::string parent = slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  split->leaf = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (split->leaf.empty() || split->leaf == "." || split->leaf == "..") {
    parent = path;
    split->leaf = ".";
  }
  char whole[PATH_MAX];
  if (!realpath(parent.c_str(), whole)) return false;
  split->parent = whole;
  return true;
}

// The directory that a path without links leads to, each above it opened below the one before. -1: *why says why.
int OpenSafely(const std::string& path, std::string* why) {
  int at = Open("/", O_PATH | kFolder);
  for (std::size_t begin = 1; at >= 0;) {
    struct stat info = {};
    const std::string here = path.substr(0, begin > 1 ? begin - 1 : 1);
    *why = fstat(at, &info) == 0 ? WhyUnsafe(info, here) : here + ": " + ErrorText(errno);
    if (!why->empty()) break;
    if (begin >= path.size()) return at;
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const int next = OpenAt(at, path.substr(begin, end - begin).c_str(), O_PATH | kFolder);
    const int error = errno;
    close(at);
    at = next;
    begin = end + 1;
    if (at < 0) *why = path.substr(0, end) + ": " + ErrorText(error);
  }
  if (at >= 0) close(at);
  return -1;
}

}  // namespace

struct Directory::State {
  State(int descriptor, const struct stat& info, bool ours)
      : fd(descriptor), device(info.st_dev), inode(info.st_ino), owner(info.st_uid), own(ours) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (const int open = fd.load(std::memory_order_relaxed); Is(open)) close(open);
  }
  // A host may have closed our descriptor, and opened a file of its own at that number.
  bool Is(int descriptor) const {
    struct stat info = {};
    return descriptor >= 0 && fstat(descriptor, &info) == 0 && info.st_dev == device && info.st_ino == inode;
  }

  std::atomic<int> fd;
  const dev_t device;
  const ino_t inode;
  const uid_t owner;
  const bool own;
};

// Where a name leads to: a descriptor, and the last part of the name.
class Directory::Place {
 public:
  Place(const Directory& directory, const std::string& name) : fd_(directory.At()) {
    std::size_t begin = 0;
    for (std::size_t slash; fd_ >= 0 && (slash = name.find('/', begin)) != std::string::npos; begin = slash + 1) {
      const int next = OpenAt(fd_, name.substr(begin, slash - begin).c_str(), O_PATH | kFolder);
      Leave();
      fd_ = next;
      opened_ = true;
    }
    leaf_ = name.substr(begin);
  }
  ~Place() { Leave(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  int fd() const { return fd_; }
  const char* leaf() const { return leaf_.c_str(); }

 private:
  void Leave() {
    const int error = errno;
    if (opened_ && fd_ >= 0) close(fd_);
    errno = error;
  }
  int fd_;
  bool opened_ = false;
  std::string leaf_;
};

Directory Directory::Opened(const std::string& path, bool own) {
  Directory directory;
  directory.path_ = path;
  while (directory.path_.size() > 1 && directory.path_.back() == '/') directory.path_.pop_back();
  const auto refuse = [&](const std::string& why) {
    directory.reason_ = directory.path_ + ": " + why;
    return directory;
  };
  Split split;
  if (!Resolve(path, &split)) return refuse(ErrorText(errno));
  int fd = -1;
  if (own) {
    std::string why;
    const int parent = OpenSafely(split.parent, &why);
    if (parent < 0) return refuse(why);
    fd = OpenAt(parent, split.leaf.c_str(), O_RDONLY | kFolder);
    const int error = errno;
    close(parent);
    errno = error;
  } else {
    // By the path as it is: that of /proc/PID/root, another container's files, has no other.
    fd = descriptors::Open(directory.path_, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  if (fd < 0) return refuse(errno == ELOOP || errno == ENOTDIR ? "a link or not a directory" : ErrorText(errno));
  struct stat info = {};
  const bool known = fstat(fd, &info) == 0;
  std::string why;
  struct stat named = {};
  if (own && known &&
      (stat(directory.path_.c_str(), &named) != 0 || named.st_dev != info.st_dev || named.st_ino != info.st_ino))
    why = "is not where its path without links leads";
  else if (!known || (own && info.st_uid != geteuid()))
    why = "belongs to somebody else";
  else if (own && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    why = "others may write to it";
  if (!why.empty()) {
    close(fd);
    return refuse(why);
  }
  directory.state_ = std::make_shared<State>(fd, info, own);
  return directory;
}

Directory Directory::Own(const std::string& path) { return Opened(path, true); }
Directory Directory::Named(const std::string& path) { return Opened(path, false); }

uid_t Directory::owner() const { return state_ ? state_->owner : static_cast<uid_t>(-1); }

bool Directory::IsAtItsPath() const {
  struct stat here = {};
  return state_ && stat(path_.c_str(), &here) == 0 && here.st_dev == state_->device && here.st_ino == state_->inode;
}

int Directory::At() const {
  if (!state_) {
    errno = ENOENT;
    return -1;
  }
  const int fd = state_->fd.load(std::memory_order_acquire);
  if (state_->Is(fd)) return fd;
  const Directory again = Opened(path_, state_->own);
  const int anew = again.state_ ? again.state_->fd.exchange(-1, std::memory_order_relaxed) : -1;
  if (state_->Is(anew)) {
    state_->fd.store(anew, std::memory_order_release);
    return anew;
  }
  if (anew >= 0) close(anew);
  errno = ESTALE;  // another directory has its name now
  return -1;
}

int Directory::Open(const std::string& name, int flags, mode_t mode) const {
  const Place place(*this, name);
  if (place.fd() < 0) return -1;
  return OpenAt(place.fd(), place.leaf(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

DIR* Directory::List(const std::string& folder) const {
  const int fd = Open(folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return nullptr;
  DIR* const directory = fdopendir(fd);
  if (!directory) close(fd);
  return directory;
}

bool Directory::Stat(const std::string& name, struct stat* info) const {
  const Place place(*this, name);
  return place.fd() >= 0 && fstatat(place.fd(), place.leaf(), info, AT_SYMLINK_NOFOLLOW) == 0;
}

bool Directory::MakeFolder(const std::string& name) const {
  const Place place(*this, name);
  if (place.fd() < 0) return false;
  if (mkdirat(place.fd(), place.leaf(), 0700) == 0) return true;
  if (errno != EEXIST) return false;
  struct stat info = {};
  if (fstatat(place.fd(), place.leaf(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (S_ISDIR(info.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

bool Directory::Rename(const std::string& from, const std::string& to) const {
  const Place source(*this, from), target(*this, to);
  return source.fd() >= 0 && target.fd() >= 0 && renameat(source.fd(), source.leaf(), target.fd(), target.leaf()) == 0;
}

bool Directory::Link(const std::string& from, const std::string& to) const {
  const Place source(*this, from), target(*this, to);
  return source.fd() >= 0 && target.fd() >= 0 && linkat(source.fd(), source.leaf(), target.fd(), target.leaf(), 0) == 0;
}

bool Directory::Unlink(const std::string& name) const {
  const Place place(*this, name);
  return place.fd() >= 0 && unlinkat(place.fd(), place.leaf(), 0) == 0;
}

}  // namespace ncclwatch::descriptors
