#include "watchdog/evidence/boxless_ranks.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/launcher.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::evidence {
namespace {

struct Candidate {
  BoxlessRank boxless;
  bool wrapper = false;  // a shell or the like around the rank
};

bool IsWrapper(std::int32_t pid) {
  char target[256] = {};
  if (readlink(fmt::format("/proc/{}/exe", pid).c_str(), target, sizeof(target) - 1) < 0) return false;
  const std::string path = target;
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const char* shell : {"sh", "bash", "dash", "zsh", "env", "timeout", "numactl", "taskset", "gdb", "strace"})
    if (name == shell) return true;
  return false;
}

bool Same(const std::string& block, const char* name, const std::string& own) {
  return own.empty() || rundir::Find(block, name).value_or("") == own;
}

rundir::Place PlaceOf(const std::string& block) {
  return rundir::PlaceFrom([&block](std::string_view name) { return rundir::Find(block, name); });
}

class Matcher {
 public:
  Matcher(const format::Identity& own, const rundir::Instance& launcher) : own_(own), launcher_(launcher) {}

  // The rank, or -1 if the process is not of this job.
  std::int32_t RankOf(std::int32_t pid) const {
    const std::optional<std::string> block = rundir::EnvironmentOf(pid);
    if (!block) return -1;
    const rundir::Place place = PlaceOf(*block);
    if (place.rank < 0 || place.world_size != own_.world_size) return -1;
    const std::string port = own_.master_port ? std::to_string(own_.master_port) : "";
    if (!Same(*block, "MASTER_PORT", port) || !Same(*block, "MASTER_ADDR", own_.master_address)) return -1;
    if (place.launcher == rundir::Launcher::kTorchrun &&
        rundir::Find(*block, "TORCHELASTIC_RESTART_COUNT").value_or("0") != std::to_string(own_.attempt))
      return -1;
    const rundir::Instance instance = rundir::InstanceOf(pid, place);
    if (instance.pid != launcher_.pid || instance.start_time != launcher_.start_time) return -1;
    return place.rank;
  }

 private:
  const format::Identity& own_;
  const rundir::Instance launcher_;
};

// Environments are read under a lock of the process's memory, and at the most of so many processes: first it is asked,
// of what the kernel tells without any, whether the launcher has started the process at all.
constexpr int kMostEnvironments = 2048;

bool IsBelow(std::int32_t pid, const rundir::Instance& launcher) {
  for (int depth = 0; depth < 64; ++depth) {
    const std::optional<rundir::ProcessStat> self = rundir::StatOf(pid);
    if (!self || self->parent <= 0 || (depth == 0 && self->state == 'Z')) return false;
    pid = self->parent;
    if (pid != launcher.pid) continue;
    const std::optional<rundir::ProcessStat> parent = rundir::StatOf(pid);
    return parent && parent->start_time == launcher.start_time;
  }
  return false;
}

// The rank itself rather than a shell around it or a worker below it.
bool Better(const Candidate& a, const Candidate& b) {
  if (a.wrapper != b.wrapper) return !a.wrapper;
  return a.boxless.start_time != b.boxless.start_time ? a.boxless.start_time < b.boxless.start_time
                                                      : a.boxless.pid < b.boxless.pid;
}

}  // namespace

std::vector<BoxlessRank> FindBoxlessRanks(const format::Identity& own, const std::vector<std::int32_t>& ranks_seen) {
  rundir::Place place = PlaceOf(rundir::EnvironmentOf(getpid()).value_or(""));
  // A rank that set its variables itself (mp.spawn) is known by what the black box says.
  if (place.launcher == rundir::Launcher::kNone) {
    place.launcher = rundir::Launcher::kPlain;
    place.world_size = own.world_size;
  }
  return FindBoxlessRanksOf(own, rundir::InstanceOf(getpid(), place), ranks_seen);
}

std::vector<BoxlessRank> FindBoxlessRanksOf(const format::Identity& own, const rundir::Instance& launcher,
                                            const std::vector<std::int32_t>& ranks_seen) {
  std::vector<BoxlessRank> found;
  if (own.world_size <= 0) return found;
  const Matcher matcher(own, launcher);
  std::map<std::int32_t, Candidate> best;
  DIR* proc = descriptors::OpenDirectory("/proc");
  if (!proc) return found;
  for (int looked = 0; looked < kMostEnvironments;) {
    const dirent* entry = readdir(proc);
    if (!entry) break;
    const std::int32_t pid = static_cast<std::int32_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0) continue;
    struct stat info = {};
    if (stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0 || info.st_uid != geteuid()) continue;
    if (!IsBelow(pid, launcher)) continue;
    ++looked;
    const std::int32_t rank = matcher.RankOf(pid);
    if (rank < 0 || std::find(ranks_seen.begin(), ranks_seen.end(), rank) != ranks_seen.end()) continue;
    const std::optional<rundir::ProcessStat> stat_line = rundir::StatOf(pid);
    if (!stat_line || stat_line->state == 'Z') continue;
    const Candidate candidate{{pid, stat_line->start_time, rank}, IsWrapper(pid)};
    const auto [at, inserted] = best.try_emplace(rank, candidate);
    if (!inserted && Better(candidate, at->second)) at->second = candidate;
  }
  closedir(proc);
  for (const auto& [rank, candidate] : best) found.push_back(candidate.boxless);
  return found;
}

}  // namespace ncclwatch::evidence
