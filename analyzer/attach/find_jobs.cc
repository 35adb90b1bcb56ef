#include "analyzer/attach/find_jobs.h"

#include <absl/strings/match.h>
#include <dirent.h>
#include <fmt/core.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "analyzer/console/units.h"
#include "watchdog/rundir/launcher.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer::attach {
namespace {

constexpr std::size_t kMostOfMaps = 16 << 20;
constexpr std::array<std::string_view, 6> kLibraries = {"/libnccl",    "/libmpi",   "/libmpich",
                                                        "/libcuda.so", "/libtorch", "/librccl"};

struct Seen {
  int pid = 0;
  rundir::ProcessStat stat;
  rundir::Place place;  // launcher kNone: it has no rank in its environment
  rundir::Instance instance;
  std::string name;
  std::optional<int> titled;  // the rank in its title
  bool watched = false;
};

struct Libraries {
  bool any = false, watched = false;
};

// A statically linked NCCL or MPI is in no map; its device is among the descriptors.
Libraries LibrariesOf(int pid) {
  Libraries found;
  const std::string maps = rundir::ReadSmall(fmt::format("/proc/{}/maps", pid), kMostOfMaps).value_or("");
  found.any = std::any_of(kLibraries.begin(), kLibraries.end(),
                          [&](std::string_view name) { return maps.find(name) != std::string::npos; });
  found.watched = absl::StrContains(maps, "/libncclwatch");
  return found;
}

bool HoldsDevice(int pid) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  DIR* const directory = opendir(folder.c_str());
  if (directory == nullptr) return false;
  bool holds = false;
  while (const dirent* entry = readdir(directory)) {
    std::array<char, 64> target{};
    const std::string path = folder + "/" + entry->d_name;
    const ssize_t size = readlink(path.c_str(), target.data(), target.size() - 1);
    holds = holds || (size > 0 && absl::StartsWith(target.data(), "/dev/nvidia"));
  }
  closedir(directory);
  return holds;
}

// "VLLM::Worker_TP1", "sglang::scheduler_TP3", "ray::RayWorkerWrapper" with a rank in it.
std::optional<int> RankInTitle(int pid) {
  static const RE2 pattern(R"((?i)(?:worker|scheduler|rank|actor)\w*?[_ :=-](?:[TPDE]P|rank)?[_ :=-]?(\d+))");
  std::string title = rundir::ReadSmall(fmt::format("/proc/{}/cmdline", pid), 4096).value_or("");
  std::replace(title.begin(), title.end(), '\0', ' ');
  int rank = 0;
  const std::string_view first(title.data(), std::min<std::size_t>(title.size(), 200));
  if (first.find("::") == std::string_view::npos ||
      !RE2::PartialMatch(re2::StringPiece(first.data(), first.size()), pattern, &rank))
    return std::nullopt;
  return rank;
}

std::string NameOf(const rundir::Place& place, const std::string& environment, const rundir::Instance& instance) {
  const auto value = [&](const char* name) { return std::string(rundir::Find(environment, name).value_or("")); };
  if (place.launcher == rundir::Launcher::kTorchrun) return "torchrun " + value("TORCHELASTIC_RUN_ID");
  if (!value("SLURM_STEP_ID").empty()) return fmt::format("slurm {}.{}", value("SLURM_JOB_ID"), value("SLURM_STEP_ID"));
  std::string starter = rundir::ReadSmall(fmt::format("/proc/{}/comm", instance.pid), 64).value_or("?");
  starter.erase(std::min(starter.find('\n'), starter.size()));
  return fmt::format("processes of {} (pid {})", starter, instance.pid);
}

std::optional<Seen> SeenAt(int pid) {
  const auto stat = rundir::StatOf(pid);
  if (!stat || stat->state == 'Z' || pid == getpid()) return std::nullopt;
  const Libraries libraries = LibrariesOf(pid);
  if (!libraries.any && !HoldsDevice(pid)) return std::nullopt;
  Seen seen{pid, *stat, {}, {}, "", std::nullopt, libraries.watched};
  const std::string environment = rundir::EnvironmentOf(pid).value_or("");
  seen.place = rundir::PlaceFrom([&](std::string_view name) { return rundir::Find(environment, name); });
  seen.titled = RankInTitle(pid);
  seen.instance = seen.place.launcher == rundir::Launcher::kNone ? rundir::Instance{stat->parent, 0}
                                                                 : rundir::InstanceOf(pid, seen.place);
  seen.name = NameOf(seen.place, environment, seen.instance);
  return seen;
}

std::vector<int> PidsOf(uid_t user) {
  std::vector<int> pids;
  DIR* const proc = opendir("/proc");
  if (proc == nullptr) return pids;
  while (const dirent* entry = readdir(proc)) {
    int pid = 0;
    struct stat owner {};
    if (ParseNumber(entry->d_name, &pid) && stat(fmt::format("/proc/{}", pid).c_str(), &owner) == 0 &&
        owner.st_uid == user)
      pids.push_back(pid);
  }
  closedir(proc);
  return pids;
}

// What a rank has started inherits its environment: data loaders, also through a shell.
bool IsOfAnother(const Seen& one, const std::map<int, const Seen*>& all) {
  constexpr int kMostAncestors = 32;
  if (one.place.launcher == rundir::Launcher::kNone) return false;
  int parent = one.stat.parent;
  for (int i = 0; i < kMostAncestors && parent > 1; ++i) {
    const auto known = all.find(parent);
    if (known != all.end() && known->second->place.launcher == one.place.launcher &&
        known->second->place.rank == one.place.rank)
      return true;
    const auto stat = rundir::StatOf(parent);
    if (!stat) return false;
    parent = stat->parent;
  }
  return false;
}

void AddRanks(const std::vector<const Seen*>& seen, RunningJob* job) {
  for (const Seen* one : seen)
    job->ranks.push_back({one->pid, one->stat.start_time,
                          one->place.rank >= 0 ? one->place.rank : one->titled.value_or(-1), one->place.local_rank,
                          one->watched});
  const auto by_age = [](const RankProcess& a, const RankProcess& b) {
    return std::pair(a.start_time, a.pid) < std::pair(b.start_time, b.pid);
  };
  std::set<int> told;
  for (const RankProcess& one : job->ranks) told.insert(one.rank);
  job->by_age = told.contains(-1) || told.size() < job->ranks.size();
  std::sort(job->ranks.begin(), job->ranks.end(), by_age);
  if (job->by_age)
    for (std::size_t i = 0; i < job->ranks.size(); ++i) job->ranks[i].rank = static_cast<int>(i);
  std::sort(job->ranks.begin(), job->ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
}

// Workers without a rank in their environment: several children of one process that are alike, or have titles.
bool AreWorkers(const std::vector<const Seen*>& seen) {
  const bool titled = std::all_of(seen.begin(), seen.end(), [](const Seen* one) { return one->titled.has_value(); });
  return titled || seen.size() > 1;
}

std::vector<RunningJob> Grouped(const std::vector<Seen>& all) {
  std::map<int, const Seen*> by_pid;
  for (const Seen& one : all) by_pid[one.pid] = &one;
  std::map<std::tuple<int, rundir::Launcher, int>, std::vector<const Seen*>> groups;
  for (const Seen& one : all)
    if (!IsOfAnother(one, by_pid)) groups[{one.instance.pid, one.place.launcher, one.place.world_size}].push_back(&one);
  std::vector<RunningJob> jobs;
  for (const auto& [key, seen] : groups) {
    // Children of a rank that has its place from a launcher are its data loaders and the like.
    const bool of_a_rank =
        by_pid.contains(std::get<0>(key)) && by_pid[std::get<0>(key)]->place.launcher != rundir::Launcher::kNone;
    if (std::get<1>(key) == rundir::Launcher::kNone && (of_a_rank || !AreWorkers(seen))) continue;
    RunningJob job;
    job.name = seen.front()->name;
    job.world_size = seen.front()->place.world_size;
    AddRanks(seen, &job);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace

std::vector<RunningJob> FindJobs(uid_t user) {
  std::vector<Seen> all;
  for (const int pid : PidsOf(user))
    if (auto seen = SeenAt(pid)) all.push_back(std::move(*seen));
  return Grouped(all);
}

std::vector<RunningJob> JobsOf(const std::vector<int>& pids, uid_t user) {
  std::vector<RunningJob> jobs;
  std::set<int> asked(pids.begin(), pids.end());
  for (RunningJob& job : FindJobs(user)) {
    const auto is_asked = [&](const RankProcess& one) { return asked.contains(one.pid); };
    if (std::none_of(job.ranks.begin(), job.ranks.end(), is_asked)) continue;
    for (const RankProcess& one : job.ranks) asked.erase(one.pid);
    jobs.push_back(std::move(job));
  }
  if (asked.empty()) return jobs;
  RunningJob named;
  named.name = "the named processes";
  named.by_age = true;
  for (const int pid : asked)
    if (const auto stat = rundir::StatOf(pid))
      named.ranks.push_back({pid, stat->start_time, static_cast<int>(named.ranks.size()), -1, false});
  if (!named.ranks.empty()) jobs.push_back(std::move(named));
  return jobs;
}

}  // namespace ncclwatch::analyzer::attach
