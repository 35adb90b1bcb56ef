#include "watchdog/exchange/rendezvous/token_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iterator>
#include <vector>

#include "watchdog/descriptors/high.h"
#include "watchdog/descriptors/limited_write.h"
#include "watchdog/rundir/place.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::size_t kLongestToken = 4096;
constexpr std::size_t kRandomBytes = 32;
constexpr std::int64_t kExpire_s = 7 * 86400;
constexpr int kMostLooked = 4096;  // entries of a directory
// A file system of the network may not show at once what another machine has just made.
constexpr int kTries = 20;
constexpr unsigned kBetween_us = 50'000;
constexpr std::string_view kPrefix = "token-";

std::string ErrorText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));
}

std::string PathOf(const std::string& directory, std::string_view name) {
  return directory + "/" + std::string(kPrefix) + std::string(name);
}

std::string Hex(const std::uint8_t* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// Why the open file is not to be trusted; empty: it is.
std::string Suspect(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return ErrorText(errno);
  if (!S_ISREG(info.st_mode)) return "it is no regular file";
  if (info.st_uid != geteuid() && info.st_uid != 0) return "it belongs to another user";
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) return "others than its owner may use it: chmod 600 it";
  if (info.st_size > static_cast<off_t>(kLongestToken)) return "it is longer than 4096 bytes";
  return "";
}

Secret ReadOpen(int fd) {
  Secret secret{"", Suspect(fd)};
  if (!secret.why.empty()) return secret;
  std::array<char, kLongestToken> bytes;
  const ssize_t n = read(fd, bytes.data(), bytes.size());
  if (n < 0) return {"", ErrorText(errno)};
  secret.text.assign(bytes.data(), static_cast<std::size_t>(n));
  while (!secret.text.empty() && std::strchr(" \t\r\n", secret.text.back())) secret.text.pop_back();
  if (secret.text.empty()) secret.why = "it is empty";
  return secret;
}

Secret Read(const std::string& path, int* error) {
  const int fd = descriptors::Open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  *error = fd < 0 ? errno : 0;
  if (fd < 0) return {"", *error == ELOOP ? "it is a link" : ErrorText(*error)};
  Secret secret = ReadOpen(fd);
  if (!secret.text.empty()) futimens(fd, nullptr);  // somebody still wants it
  close(fd);
  return secret;
}

// Leftovers: of jobs that ended long ago, and of makers that were killed.
void Expire(const std::string& directory) {
  DIR* const entries = descriptors::OpenDirectory(directory);
  if (!entries) return;
  const std::int64_t before_s = std::time(nullptr) - kExpire_s;
  int left = kMostLooked;
  while (const dirent* entry = readdir(entries)) {
    if (left-- == 0) break;
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    struct stat info {};
    if (fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
        info.st_mtime < before_s)
      unlinkat(dirfd(entries), entry->d_name, 0);
  }
  closedir(entries);
}

// 0: there is one now, ours or another's. Else errno.
int Make(const std::string& path) {
  std::array<std::uint8_t, kRandomBytes + 8> random;
  if (getrandom(random.data(), random.size(), GRND_NONBLOCK) != static_cast<ssize_t>(random.size())) return EAGAIN;
  const std::string draft = path + "." + Hex(random.data() + kRandomBytes, 8);  // other machines make theirs here too
  const int fd = descriptors::Open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  const std::string line = Hex(random.data(), kRandomBytes) + "\n";
  bool whole = fchmod(fd, 0600) == 0 && descriptors::WriteAll(fd, line);
  whole = close(fd) == 0 && whole;  // a quota may speak only now
  int error = whole ? 0 : EIO;
  if (whole && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) error = errno;
  unlink(draft.c_str());
  return error;
}

}  // namespace

Secret ReadSecret(const std::string& path) {
  int error = 0;
  return Read(path, &error);
}

Secret SharedSecret(const std::string& directory, std::string_view name) {
  bool made = false;
  if (std::string why = rundir::Enter(directory, &made); !why.empty()) return {"", std::move(why)};
  const std::string path = PathOf(directory, name);
  Secret secret;
  for (int i = 0; i < kTries; ++i) {
    int error = 0;
    secret = Read(path, &error);
    if (error != ENOENT) return secret;
    if (i == 0) Expire(directory);
    if (i > 0) usleep(kBetween_us);
    error = Make(path);
    if (error != 0) return {"", ErrorText(error)};
  }
  return secret;
}

void KeepSecret(const std::string& directory, std::string_view name) { ReadSecret(PathOf(directory, name)); }

bool OnNetworkFileSystem(const std::string& path) {
  constexpr std::uint32_t kKinds[] = {
      0x6969,                  // NFS
      0x0bd00bd0,              // Lustre
      0x47504653,              // GPFS
      0x00c36400,              // Ceph
      0x19830326,              // BeeGFS
      0xff534d42, 0xfe534d42,  // CIFS, SMB
      0x5346414f, 0x6b414653,  // AFS
      0xaad7aaea,              // Panasas
      0x20030528,              // OrangeFS
  };
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 &&
         std::find(std::begin(kKinds), std::end(kKinds), static_cast<std::uint32_t>(info.f_type)) != std::end(kKinds);
}

}  // namespace ncclwatch::exchange
