#include "analyzer/stacks/process/open_file.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "analyzer/stacks/threads/proc_folder.h"
#include "analyzer/stacks/threads/proc_thread.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::array<std::string_view, 8> kNoData = {"proc",   "sysfs",    "cgroup", "cgroup2",
                                                     "devpts", "devtmpfs", "mqueue", "debugfs"};
constexpr std::array<std::string_view, 7> kLocal = {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay"};

bool Among(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "mnt_id:\t30"; -1 if it does not tell.
int MountOf(const std::string& fdinfo) {
  constexpr std::string_view kLabel = "mnt_id:";
  const std::size_t at = fdinfo.find(kLabel);
  return at == std::string::npos ? -1 : std::atoi(fdinfo.c_str() + at + kLabel.size());
}

// Named pipes and devices look like files. Only a local file system can be asked: another one may not answer.
OpenFile::Kind KindOf(int pid, int descriptor, const OpenFile& file) {
  if (Among(kNoData, file.file_system)) return OpenFile::Kind::kOther;
  struct stat status {};
  if (!Among(kLocal, file.file_system) || stat(fmt::format("/proc/{}/fd/{}", pid, descriptor).c_str(), &status) != 0)
    return OpenFile::Kind::kFile;
  if (S_ISFIFO(status.st_mode)) return OpenFile::Kind::kPipe;
  return S_ISREG(status.st_mode) ? OpenFile::Kind::kFile : OpenFile::Kind::kOther;
}

}  // namespace

void FindMount(const std::string& mountinfo, int mount, OpenFile* file) {
  // "36 35 98:0 /root /data rw,noatime shared:1 - ext4 /dev/sda1 rw"
  constexpr std::size_t kMountedOn = 4;
  const std::vector<std::string> lines = absl::StrSplit(mountinfo, '\n');
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    int number = -1;
    if (words.size() <= kMountedOn || !absl::SimpleAtoi(words[0], &number) || number != mount) continue;
    const auto dash = std::find(words.begin() + kMountedOn, words.end(), "-");
    if (dash == words.end() || dash + 1 == words.end()) return;
    file->mounted_on = words[kMountedOn];
    file->file_system = *(dash + 1);
    return;
  }
}

OpenFile OpenFileOf(int pid, int descriptor) {
  constexpr std::size_t kMostMounts = 1 << 20;
  OpenFile file;
  const ProcFolder folder(fmt::format("/proc/{}", pid));
  const auto link = folder.Link(fmt::format("fd/{}", descriptor).c_str());
  if (!link) return file;
  file.kind = OpenFile::Kind::kOther;
  if (link->starts_with("pipe:")) file.kind = OpenFile::Kind::kPipe;
  if (link->starts_with("socket:")) file.kind = OpenFile::Kind::kSocket;
  if (!link->starts_with("/")) return file;
  file.path = *link;
  const int mount = MountOf(folder.Read(fmt::format("fdinfo/{}", descriptor).c_str()).value_or(""));
  FindMount(folder.Read("mountinfo", kMostMounts).value_or(""), mount, &file);
  file.kind = KindOf(pid, descriptor, file);
  return file;
}

std::string Text(const OpenFile& file) {
  switch (file.kind) {
    case OpenFile::Kind::kNone: return "";
    case OpenFile::Kind::kPipe: return file.path.empty() ? "a pipe" : "the named pipe " + file.path;
    case OpenFile::Kind::kSocket: return "a socket";
    case OpenFile::Kind::kFile:
    case OpenFile::Kind::kOther: break;
  }
  if (file.file_system.empty()) return file.path;
  return fmt::format("{} ({}, mounted on {})", file.path, file.file_system, file.mounted_on);
}

}  // namespace ncclwatch::stacks
