#include <fmt/core.h>
#include <sched.h>

#include <cstdlib>
#include <map>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/words.h"

namespace ncclwatch::doctor {
namespace {

Result Affinity(const Machine& machine) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return Skip("the kernel does not tell");
  const int count = CPU_COUNT(&set), ranks = machine.local_ranks();
  const std::string seen = fmt::format("{} cores for this rank, {} ranks on this host", count, ranks);
  // A launcher that binds gives each rank its own; who does not, gives all ranks all cores.
  if (count == 1 && machine.place().launcher != rundir::Launcher::kNone)
    return Warn(seen, "data loaders, NCCL's proxy and the rank itself share one core",
                "mpirun --bind-to none, or more cores a task (--cpus-per-task)");
  return Pass(seen);
}

Result Quota(const Machine& machine) {
  std::optional<double> cores;
  const auto text = machine.Read("/sys/fs/cgroup/cpu.max");  // of a container's own root
  if (text && !text->starts_with("max")) {
    const std::vector<std::string> words = Split(*text, " ");
    if (words.size() == 2) cores = std::strtod(words[0].c_str(), nullptr) / std::strtod(words[1].c_str(), nullptr);
  }
  const auto quota = machine.Number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
             period = machine.Number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota && period && *quota > 0) cores = *quota / *period;
  if (!cores) return Pass("no quota");
  const std::string seen = fmt::format("{:.1f} cores", *cores);
  if (*cores < machine.local_ranks())
    return Warn(seen,
                fmt::format("{} ranks are stopped for a part of each period: each in turn is a straggler",
                            machine.local_ranks()),
                "give the container a core or more for each rank, or no quota");
  return Pass(seen);
}

Result Governor(const Machine& machine) {
  std::map<std::string, int> counts;
  for (const std::string& name : machine.List("/sys/devices/system/cpu"))
    if (const auto governor = machine.Read("/sys/devices/system/cpu/" + name + "/cpufreq/scaling_governor"))
      ++counts[*governor];
  if (counts.empty()) return Skip("no frequency governor here");
  std::vector<std::string> texts;
  for (const auto& [governor, count] : counts) texts.push_back(fmt::format("{} cores {}", count, governor));
  if (counts.contains("powersave") || counts.size() > 1)
    return Warn(Joined(texts), "clocks rise late, or differ between cores", "cpupower frequency-set -g performance");
  return Pass(Joined(texts));
}

Result Load(const Machine& machine) {
  const auto load = machine.Number("/proc/loadavg");
  int cores = 0;
  for (const std::string& name : machine.List("/sys/devices/system/cpu"))
    if (name.starts_with("cpu") && name.size() > 3 && name[3] >= '0' && name[3] <= '9') ++cores;
  if (!load || cores == 0) return Skip("the kernel does not tell");
  const std::string seen = fmt::format("load {:.1f} on {} cores", *load, cores);
  if (*load > cores + machine.local_ranks())
    return Warn(seen, "something else runs on this host",
                "`top`: end what is left of earlier jobs, or ask for whole hosts (--exclusive)");
  return Pass(seen);
}

Result HugePages(const Machine& machine) {
  const auto text = machine.Read("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!text) return Skip("no transparent huge pages in this kernel");
  const std::size_t at = text->find('[');
  return Pass(at == std::string::npos ? *text : text->substr(at + 1, text->find(']') - at - 1));
}

Result NumaBalancing(const Machine& machine) {
  const auto mode = machine.Number("/proc/sys/kernel/numa_balancing");
  if (!mode) return Skip("no such setting in this kernel");
  const std::size_t nodes = Split(machine.Read("/sys/devices/system/node/online").value_or("0"), "-,").size();
  if (*mode != 0 && nodes > 1)
    return Warn("kernel.numa_balancing=1", "pages move while ranks compute: now and then a rank is late",
                "sysctl kernel.numa_balancing=0");
  return Pass(fmt::format("kernel.numa_balancing={:.0f}", *mode));
}

constexpr Check kProcessorChecks[] = {
    {"affinity", "cores that a rank may use", kAnyPhase, Affinity},
    {"processor-quota", "cores that the container may use", kAnyPhase, Quota},
    {"governor", "frequency of cores", kScaleUp | kLongRun, Governor},
    {"load", "other programs on this host", kAnyPhase, Load},
    {"huge-pages", "transparent huge pages", kScaleUp | kLongRun, HugePages},
    {"numa-balancing", "pages that move", kScaleUp | kLongRun, NumaBalancing},
};

}  // namespace

std::span<const Check> ProcessorChecks() { return kProcessorChecks; }

}  // namespace ncclwatch::doctor
