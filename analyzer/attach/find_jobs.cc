#include "analyzer/attach/find_jobs.h"

#include <absl/strings/match.h>
#include <dirent.h>
#include <fmt/core.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <optional>
#include <set>

#include "analyzer/console/units.h"
#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/python/groups.h"
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
  std::string slurm_job;
  std::vector<int> titled;  // numbers in its title
  bool watched = false;
  bool early = false;  // it has a rank, but none of the libraries yet: it is still importing, or is a shell
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

// "VLLM::Worker_DP0_TP1", "sglang::scheduler_TP3": the numbers of the axes. Empty: no such title.
std::vector<int> PlaceInTitle(int pid) {
  static const RE2 pattern(R"((?i)::(?:worker|scheduler|rank|actor)((?:[_ :=-]*[A-Z]{2,4}[_ :=-]?\d+|[_ :=-]+\d+)+))");
  static const RE2 number(R"((\d+))");
  std::string title = rundir::ReadSmall(fmt::format("/proc/{}/cmdline", pid), 4096).value_or("");
  std::replace(title.begin(), title.end(), '\0', ' ');
  const std::string_view first(title.data(), std::min<std::size_t>(title.size(), 200));
  re2::StringPiece axes;
  std::vector<int> numbers;
  if (!RE2::PartialMatch(re2::StringPiece(first.data(), first.size()), pattern, &axes)) return numbers;
  for (int one = 0; RE2::FindAndConsume(&axes, number, &one);) numbers.push_back(one);
  return numbers;
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
  const std::string environment = rundir::EnvironmentOf(pid).value_or("");
  Seen seen{pid, *stat};
  seen.place = rundir::PlaceFrom([&](std::string_view name) { return rundir::Find(environment, name); });
  const Libraries libraries = LibrariesOf(pid);
  seen.watched = libraries.watched;
  seen.early = !libraries.any && !HoldsDevice(pid);
  if (seen.early && seen.place.launcher == rundir::Launcher::kNone) return std::nullopt;
  seen.slurm_job = rundir::Find(environment, "SLURM_JOB_ID").value_or("");
  seen.titled = PlaceInTitle(pid);
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

// Of the processes with one rank the one that has the libraries, or else the youngest: a shell starts what it is to
// run.
std::vector<const Seen*> OneOfEachRank(const std::vector<const Seen*>& seen) {
  std::vector<const Seen*> kept;
  for (const Seen* one : seen) {
    const bool replaced = one->early && std::any_of(seen.begin(), seen.end(), [&](const Seen* other) {
                            return other != one && other->place.rank == one->place.rank &&
                                   (!other->early || std::pair(other->stat.start_time, other->pid) >
                                                         std::pair(one->stat.start_time, one->pid));
                          });
    if (!replaced) kept.push_back(one);
  }
  return kept;
}

// Whether all know the ranks that torch.distributed has given them, which are then taken. Ray sets RANK while the
// process runs, and vLLM never.
bool TakeRanksOfTorch(RunningJob* job) {
  std::set<int> ranks;
  std::vector<RankProcess> known;
  std::uint32_t world = 0;
  for (RankProcess one : job->ranks) {
    stacks::Memory memory(one.pid);
    stacks::Modules modules(&memory, nullptr);
    const auto groups = stacks::python::ReadGroups(one.pid, &modules);
    const auto largest =
        std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
    if (largest == groups.end() || largest->rank < 0) continue;
    world = std::max(world, largest->size);
    one.rank = largest->rank;
    if (!ranks.insert(one.rank).second) return false;
    known.push_back(one);
  }
  if (known.size() < 2) return false;
  job->ranks = std::move(known);
  job->world_size = static_cast<int>(world);
  return true;
}

void AddRanks(const std::vector<const Seen*>& seen, RunningJob* job) {
  std::set<std::vector<int>> titles;
  std::set<int> told;
  for (const Seen* one : seen) {
    job->ranks.push_back({one->pid, one->stat.start_time, one->place.rank, one->place.local_rank, one->watched});
    titles.insert(one->titled);
    told.insert(one->place.rank);
  }
  const auto by_rank = [](const RankProcess& a, const RankProcess& b) { return a.rank < b.rank; };
  if ((told.contains(-1) || told.size() < seen.size()) && !TakeRanksOfTorch(job)) {
    // By their titles, or else by age.
    job->by_age = titles.size() < seen.size();
    std::vector<std::pair<std::vector<int>, std::size_t>> order;
    for (std::size_t i = 0; i < seen.size(); ++i) order.push_back({seen[i]->titled, i});
    std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      const auto age = [&](const auto& one) {
        return std::pair(seen[one.second]->stat.start_time, seen[one.second]->pid);
      };
      return job->by_age ? age(a) < age(b) : a.first < b.first;
    });
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool is_rank = !job->by_age && order[i].first.size() == 1;
      job->ranks[order[i].second].rank = is_rank ? order[i].first.front() : static_cast<int>(i);
    }
  }
  std::sort(job->ranks.begin(), job->ranks.end(), by_rank);
}

double AgeOfYoungest(const std::vector<RankProcess>& ranks) {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  std::uint64_t youngest = 0;
  for (const RankProcess& one : ranks) youngest = std::max(youngest, one.start_time);
  return static_cast<double>(now.tv_sec) - static_cast<double>(youngest) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Workers without a rank in their environment: several children of one process that are alike, or have titles.
bool AreWorkers(const std::vector<const Seen*>& seen) {
  const bool titled = std::all_of(seen.begin(), seen.end(), [](const Seen* one) { return !one->titled.empty(); });
  return titled || seen.size() > 1;
}

std::vector<RunningJob> Grouped(const std::vector<Seen>& all) {
  std::map<int, const Seen*> by_pid;
  for (const Seen& one : all)
    if (!one.early) by_pid[one.pid] = &one;
  std::map<std::tuple<int, rundir::Launcher, int>, std::vector<const Seen*>> groups;
  for (const Seen& one : all)
    if (!IsOfAnother(one, by_pid)) groups[{one.instance.pid, one.place.launcher, one.place.world_size}].push_back(&one);
  std::vector<RunningJob> jobs;
  for (const auto& [key, seen] : groups) {
    // Children of a rank that has its place from a launcher are its data loaders and the like.
    const bool of_a_rank =
        by_pid.contains(std::get<0>(key)) && by_pid[std::get<0>(key)]->place.launcher != rundir::Launcher::kNone;
    if (std::get<1>(key) == rundir::Launcher::kNone && (of_a_rank || !AreWorkers(seen))) continue;
    if (std::all_of(seen.begin(), seen.end(), [](const Seen* one) { return one->early; })) continue;
    RunningJob job;
    job.name = seen.front()->name;
    job.world_size = seen.front()->place.world_size;
    job.launched = seen.front()->place.local_world_size;
    job.slurm_job = seen.front()->slurm_job;
    AddRanks(OneOfEachRank(seen), &job);
    job.age_s = AgeOfYoungest(job.ranks);
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
  for (const int pid : asked)
    if (const auto stat = rundir::StatOf(pid))
      named.ranks.push_back({pid, stat->start_time, static_cast<int>(named.ranks.size()), -1, false});
  named.by_age = !TakeRanksOfTorch(&named);
  if (!named.ranks.empty()) jobs.push_back(std::move(named));
  return jobs;
}

}  // namespace ncclwatch::analyzer::attach
