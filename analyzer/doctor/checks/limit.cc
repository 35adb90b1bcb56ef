#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/words.h"

namespace ncclwatch::doctor {
namespace {

std::string LimitText(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit); }

rlimit LimitOf(int which) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource_t>(which), &limit);
  return limit;
}

Result LockedMemory(const Machine& machine) {
  const rlim_t limit = LimitOf(RLIMIT_MEMLOCK).rlim_cur;
  const std::string seen = limit == RLIM_INFINITY ? "unlimited" : analyzer::BytesText(limit);
  const bool rdma = !machine.List("/sys/class/infiniband").empty();
  if (limit == RLIM_INFINITY || !rdma) return Pass(seen + (rdma ? "" : ", and no InfiniBand that needs it"));
  constexpr rlim_t kLittle = 64 << 20;
  const char* const advice =
      "set memlock to unlimited (limits.conf, LimitMEMLOCK of slurmd, --ulimit memlock=-1 of docker)";
  if (limit < kLittle) return Fail(seen, "InfiniBand registers its buffers as locked memory, and fails", advice);
  return Warn(seen, "InfiniBand registers its buffers as locked memory", advice);
}

Result OpenFiles(const Machine& machine) {
  const rlim_t limit = LimitOf(RLIMIT_NOFILE).rlim_cur;
  const std::string seen = LimitText(limit);
  const auto ranks = static_cast<rlim_t>(machine.place().world_size > 0 ? machine.place().world_size : 1);
  constexpr rlim_t kLeast = 1024, kOfRank = 8;  // a rank needs some for itself, and for each peer
  if (limit < kLeast) return Warn(seen, "a rank may need more: data loaders and connections", "ulimit -n 65536");
  if (limit < kLeast / 2 + kOfRank * ranks)
    return Warn(seen, fmt::format("few for {} ranks", ranks), "ulimit -n 1048576");
  return Pass(seen);
}

Result Processes(const Machine& machine) {
  const rlim_t limit = LimitOf(RLIMIT_NPROC).rlim_cur;
  const auto group = CgroupLimit(machine, "pids.max", "pids/pids.max");
  const std::string seen =
      fmt::format("ulimit -u {}{}", LimitText(limit), group ? fmt::format(", cgroup {:.0f}", *group) : "");
  constexpr double kOfRank = 256;  // threads of a rank of torch with its data loaders
  const double least = kOfRank * machine.local_ranks();
  if ((group && *group < least) || (geteuid() != 0 && limit != RLIM_INFINITY && static_cast<double>(limit) < least))
    return Warn(seen, fmt::format("{} ranks may start {:.0f} threads", machine.local_ranks(), least),
                "ulimit -u unlimited; pids.max of the container or the job");
  return Pass(seen);
}

Result AddressSpace(const Machine& /*machine*/) {
  const rlim_t limit = LimitOf(RLIMIT_AS).rlim_cur;
  if (limit == RLIM_INFINITY) return Pass("unlimited");
  return Warn(analyzer::BytesText(limit), "CUDA reserves the addresses of all GPUs' memory, and fails where it cannot",
              "ulimit -v unlimited");
}

Result CorePattern(const Machine& machine) {
  const auto pattern = machine.Read("/proc/sys/kernel/core_pattern");
  if (!pattern) return Skip("the kernel does not tell");
  const rlim_t limit = LimitOf(RLIMIT_CORE).rlim_cur;
  const std::string seen = fmt::format("{}, ulimit -c {}", *pattern, LimitText(limit));
  if (limit > 0 && !pattern->starts_with("|") && machine.local_ranks() > 1 &&
      pattern->find("%p") == std::string::npos && machine.Read("/proc/sys/kernel/core_uses_pid") != "1")
    return Warn(seen, "the cores of all ranks get one name", "sysctl kernel.core_pattern=core.%h.%p, or ulimit -c 0");
  return Pass(seen);
}

Result PtraceScope(const Machine& machine) {
  const auto scope = machine.Number("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope) return Pass("Yama is not in this kernel");
  const std::string seen = fmt::format("kernel.yama.ptrace_scope={:.0f}", *scope);
  if (*scope >= 2)
    return Warn(seen, "only root can read stacks of other processes: verdicts will have none",
                "sysctl kernel.yama.ptrace_scope=1");
  if (*scope >= 1) return Pass(seen + ": NCCLWATCH_PTRACE=1 lets `ncclwatch stacks` read live ranks");
  return Pass(seen);
}

constexpr Check kLimitChecks[] = {
    {"locked-memory", "memory that may be locked", kAnyPhase, LockedMemory},
    {"open-files", "files that may be open", kAnyPhase, OpenFiles},
    {"processes", "processes and threads", kScaleUp | kLongRun, Processes},
    {"address-space", "addresses that may be reserved", kAnyPhase, AddressSpace},
    {"core-pattern", "where cores go", kLongRun | kFirstRun, CorePattern},
    {"ptrace-scope", "who may read stacks", kAnyPhase, PtraceScope},
};

}  // namespace

std::span<const Check> LimitChecks() { return kLimitChecks; }

}  // namespace ncclwatch::doctor
