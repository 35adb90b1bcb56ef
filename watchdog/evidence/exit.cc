#include "watchdog/evidence/exit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ncclwatch/format/observation.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/evidence/pidfd.h"
#include "watchdog/rundir/process.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

namespace ncclwatch::evidence {
namespace {

// linux/pidfd.h of 6.15: the first published size of struct pidfd_info, with exit_code where 6.13 had a spare word.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup;
  std::uint32_t ids[11];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);
constexpr std::uint64_t kPidfdInfoExit = 1u << 3;

ExitWord FromWaitStatus(std::int32_t status) {
  ExitWord word;
  word.flags = format::kExitKnown;
  if (WIFSIGNALED(status)) {
    word.signal = WTERMSIG(status);
    if (WCOREDUMP(status)) word.flags |= format::kExitCore;
  } else {
    word.status = WEXITSTATUS(status);
  }
  return word;
}

std::uint64_t NumberAfter(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(key);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

}  // namespace

int OpenPidfd(std::int32_t pid) { return descriptors::MoveHigh(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

int SignalPidfd(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

std::optional<std::int32_t> WaitStatusOf(int pidfd) {
  PidfdInfo info = {};
  info.mask = kPidfdInfoExit;
  if (pidfd < 0 || ioctl(pidfd, kPidfdGetInfo, &info) != 0 || !(info.mask & kPidfdInfoExit)) return std::nullopt;
  return info.exit_code;
}

ExitWord ExitOf(std::int32_t pid, std::uint64_t start_time, int pidfd) {
  const std::optional<rundir::ProcessStat> stat = rundir::StatOf(pid);
  if (stat && stat->start_time == start_time && (stat->state == 'Z' || stat->state == 'X') && stat->exit_code)
    return FromWaitStatus(*stat->exit_code);
  if (const std::optional<std::int32_t> status = WaitStatusOf(pidfd)) return FromWaitStatus(*status);
  return {};
}

std::string MemoryKills::Follow(std::int32_t pid) {
  const std::string lines = rundir::ReadSmall(fmt::format("/proc/{}/cgroup", pid), 65536).value_or("");
  std::vector<std::string> files;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("0::")) files.push_back("/sys/fs/cgroup" + line.substr(3) + "/memory.events");
    const std::size_t memory = line.find(":memory:");
    if (memory != std::string::npos)
      files.push_back("/sys/fs/cgroup/memory" + line.substr(memory + 8) + "/memory.oom_control");
  }
  std::string group = "/proc/vmstat";  // no such file is visible from inside many containers
  for (const std::string& file : files)
    if (rundir::ReadSmall(file, 4096).value_or("").find("oom_kill ") != std::string::npos) group = file;
  FollowGroup(group);
  return group;
}

void MemoryKills::FollowGroup(const std::string& group) {
  const auto [at, inserted] = counts_.try_emplace(group);
  if (inserted) at->second.before = at->second.sampled = CountOf(group);
}

void MemoryKills::Refresh(std::int64_t now_ns) {
  constexpr std::int64_t kEvery_ns = 10'000'000'000;  // a large process needs seconds to give back its memory
  for (auto& [group, count] : counts_) {
    if (count.sampled_ns != 0 && now_ns - count.sampled_ns < kEvery_ns) continue;
    count.before = std::max(count.before, count.sampled);
    count.sampled = CountOf(group);
    count.sampled_ns = now_ns;
  }
}

void MemoryKills::Learn(const MemoryKills& other) {
  for (const auto& [group, count] : other.counts_) counts_.insert_or_assign(group, count);
}

bool MemoryKills::TakeKill(const std::string& group) {
  const auto found = counts_.find(group);
  if (found == counts_.end() || CountOf(group) <= found->second.before) return false;
  ++found->second.before;
  return true;
}

std::uint64_t MemoryKills::CountOf(const std::string& group) {
  return NumberAfter(rundir::ReadSmall(group, 1 << 16).value_or(""), "oom_kill ");
}

}  // namespace ncclwatch::evidence
