#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/words.h"
#include "watchdog/settings/settings.h"
#include "watchdog/settings/variables.h"

namespace ncclwatch::doctor {
namespace {

std::optional<long> Integer(const std::string& text) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  return text.empty() || *end != '\0' ? std::nullopt : std::optional(value);
}

Result Rendezvous(const Machine& machine) {
  const auto address = machine.Variable("MASTER_ADDR"), port = machine.Variable("MASTER_PORT");
  if (!address && !port)
    return Skip("neither MASTER_ADDR nor MASTER_PORT is set: another launcher than torchrun's, or none");
  const std::string seen = fmt::format("MASTER_ADDR={} MASTER_PORT={}", address.value_or(""), port.value_or(""));
  if (!address || !port)
    return Fail(seen, "torch.distributed needs both",
                fmt::format("set {} too", address ? "MASTER_PORT" : "MASTER_ADDR"));
  const auto number = Integer(*port);
  if (!number || *number < 1 || *number > 65535)
    return Fail(seen, "that is no port", "set MASTER_PORT to a number from 1024 to 65535");
  const bool loopback = *address == "localhost" || address->starts_with("127.") || *address == "::1";
  if (loopback && machine.on_several_hosts())
    return Fail(seen, "each host would wait for itself: the ranks are on several hosts",
                "set MASTER_ADDR to the name of the host of rank 0");
  return Pass(seen);
}

Result WorldSize(const Machine& machine) {
  const auto rank = machine.Variable("RANK"), world = machine.Variable("WORLD_SIZE");
  const auto local = machine.Variable("LOCAL_RANK"), local_world = machine.Variable("LOCAL_WORLD_SIZE");
  if (!rank && !world)
    return machine.place().world_size > 0
               ? Pass(fmt::format("rank {} of {}, by the launcher", machine.place().rank, machine.place().world_size))
               : Skip("no launcher has set ranks");
  const std::string seen = fmt::format("RANK={} WORLD_SIZE={} LOCAL_RANK={} LOCAL_WORLD_SIZE={}", rank.value_or(""),
                                       world.value_or(""), local.value_or(""), local_world.value_or(""));
  if (!rank || !world)
    return Fail(seen, "torch.distributed needs both RANK and WORLD_SIZE", "let torchrun set them, or set both");
  const auto r = Integer(*rank), w = Integer(*world);
  if (!r || !w || *r < 0 || *w < 1 || *r >= *w)
    return Fail(seen, "RANK has to be a number from 0 to WORLD_SIZE - 1", "look at who sets these variables");
  const auto l = Integer(local.value_or("0")), lw = Integer(local_world.value_or(*world));
  if (!l || !lw || *l < 0 || *l >= *lw || *lw > *w)
    return Fail(seen, "LOCAL_RANK has to be below LOCAL_WORLD_SIZE, and that not above WORLD_SIZE",
                "look at who sets these variables");
  const auto slurm = machine.Variable("SLURM_NTASKS");
  if (slurm && machine.Variable("SLURM_PROCID") && Integer(*slurm) && *Integer(*slurm) > 1 && *w != *Integer(*slurm) &&
      !machine.Variable("TORCHELASTIC_RUN_ID"))
    return Warn(seen, fmt::format("Slurm has started {} tasks", *slurm), "set WORLD_SIZE from SLURM_NTASKS");
  return Pass(seen);
}

// Values of NCCL's documentation: anything else is ignored, or refused.
struct Known {
  std::string_view name;
  std::string_view words;  // "ring tree"; empty: a number
};
constexpr Known kValues[] = {
    {"NCCL_DEBUG", "version warn info abort trace none"},
    {"NCCL_IB_DISABLE", ""},
    {"NCCL_P2P_DISABLE", ""},
    {"NCCL_SHM_DISABLE", ""},
    {"NCCL_NSOCKS_PERTHREAD", ""},
    {"NCCL_SOCKET_NTHREADS", ""},
    {"NCCL_BUFFSIZE", ""},
    {"NCCL_NTHREADS", ""},
    {"NCCL_MIN_NCHANNELS", ""},
    {"NCCL_MAX_NCHANNELS", ""},
    {"NCCL_IB_TIMEOUT", ""},
    {"NCCL_IB_RETRY_CNT", ""},
    {"NCCL_IB_GID_INDEX", ""},
    {"NCCL_IB_TC", ""},
    {"NCCL_IB_SL", ""},
    {"NCCL_CROSS_NIC", ""},
    {"NCCL_CUMEM_ENABLE", ""},
    {"NCCL_NVLS_ENABLE", ""},
};

bool IsValue(const Known& known, const std::string& value) {
  if (known.words.empty()) {
    char* end = nullptr;
    std::strtol(value.c_str(), &end, 0);
    return end != value.c_str() && *end == '\0';
  }
  const std::vector<std::string> words = Split(known.words, " ");
  return std::find(words.begin(), words.end(), Lower(value)) != words.end();
}

Result NcclVariables(const Machine& machine) {
  std::vector<std::string> set, wrong;
  for (const auto& [name, value] : machine.environment())
    if (name.starts_with("NCCL_")) set.push_back(name + "=" + value);
  for (const Known& known : kValues)
    if (const auto value = machine.Variable(std::string(known.name)); value && !IsValue(known, *value))
      wrong.push_back(
          fmt::format("{}={} ({})", known.name, *value,
                      known.words.empty() ? "a number is expected" : "one of: " + std::string(known.words)));
  const auto least = machine.Variable("NCCL_MIN_NCHANNELS"), most = machine.Variable("NCCL_MAX_NCHANNELS");
  if (least && most && Integer(*least) && Integer(*most) && *Integer(*least) > *Integer(*most))
    wrong.push_back(fmt::format("NCCL_MIN_NCHANNELS={} is above NCCL_MAX_NCHANNELS={}", *least, *most));
  if (machine.Variable("NCCL_COMM_ID") && machine.on_several_hosts() &&
      machine.Variable("NCCL_COMM_ID")->starts_with("127."))
    wrong.push_back("NCCL_COMM_ID names this host's own address, and the ranks are on several hosts");
  const std::string seen = set.empty() ? "no NCCL_* variable is set" : Joined(set, " ");
  if (wrong.empty()) return Pass(seen);
  return Warn(Joined(wrong, "; "), "NCCL does not do what these variables seem to ask for",
              "correct or unset them; NCCL's documentation lists what each takes");
}

// Names that NCCL's list matches: "eth" those that begin so, "=eth0" exactly, "^docker" all others.
bool Matches(const std::string& list, const std::string& name) {
  const bool others = list.starts_with("^");
  for (std::string prefix : Split(list.substr(others ? 1 : 0), ",")) {
    const bool exactly = prefix.starts_with("=");
    if (exactly) prefix.erase(0, 1);
    prefix = prefix.substr(0, prefix.find(':'));  // a port of an InfiniBand device
    if (exactly ? name == prefix : name.starts_with(prefix)) return !others;
  }
  return others;
}

Result Selects(const Machine& machine, const char* variable, const char* folder, const char* what) {
  const auto list = machine.Variable(variable);
  if (!list) return Pass(fmt::format("{} is not set", variable));
  std::vector<std::string> names = machine.List(folder), found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found),
               [&](const std::string& name) { return Matches(*list, name); });
  const std::string seen = fmt::format("{}={}: {}", variable, *list, found.empty() ? "none" : Joined(found));
  if (!found.empty()) return Pass(seen);
  return Fail(seen, fmt::format("this host has no such {}: it has {}", what, names.empty() ? "none" : Joined(names)),
              fmt::format("name one that every host has, or unset {}", variable));
}

Result SocketInterface(const Machine& machine) {
  return Selects(machine, "NCCL_SOCKET_IFNAME", "/sys/class/net", "interface");
}
Result GlooInterface(const Machine& machine) {
  return Selects(machine, "GLOO_SOCKET_IFNAME", "/sys/class/net", "interface");
}

Result IbVariables(const Machine& machine) {
  const bool disabled = SaysYes(machine.Variable("NCCL_IB_DISABLE").value_or(""));
  const std::vector<std::string> devices = machine.List("/sys/class/infiniband");
  if (disabled && !devices.empty())
    return Warn("NCCL_IB_DISABLE=1", fmt::format("{} lie idle: data between hosts go over TCP", Joined(devices)),
                "unset NCCL_IB_DISABLE");
  if (disabled || !machine.Variable("NCCL_IB_HCA"))
    return Pass(disabled ? "NCCL_IB_DISABLE=1, and there is no device" : "NCCL_IB_HCA is not set");
  return Selects(machine, "NCCL_IB_HCA", "/sys/class/infiniband", "device");
}

struct Renamed {
  const char *old_name, *new_name;
};
constexpr Renamed kRenamed[] = {
    // torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp
    {"NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    {"NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"},
    {"NCCL_DESYNC_DEBUG", "TORCH_NCCL_DESYNC_DEBUG"},
    {"NCCL_USE_COMM_NONBLOCKING", "TORCH_NCCL_USE_COMM_NONBLOCKING"},
    {"NCCL_ENABLE_TIMING", "TORCH_NCCL_ENABLE_TIMING"},
    {"ENABLE_NCCL_HEALTH_CHECK", "TORCH_ENABLE_NCCL_HEALTH_CHECK"},
};

Result TorchVariables(const Machine& machine) {
  std::vector<std::string> wrong;
  for (const Renamed& one : kRenamed)
    if (machine.Variable(one.old_name)) wrong.push_back(fmt::format("{} is now {}", one.old_name, one.new_name));
  if (SaysYes(machine.Variable("TORCH_NCCL_BLOCKING_WAIT").value_or("")) &&
      machine.Variable("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    wrong.emplace_back("with TORCH_NCCL_BLOCKING_WAIT=1 TORCH_NCCL_ASYNC_ERROR_HANDLING has no effect");
  const auto heartbeat = machine.Variable("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC");
  if (heartbeat && !Integer(*heartbeat))
    wrong.push_back("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=" + *heartbeat + " is no number");
  if (SaysYes(machine.Variable("CUDA_LAUNCH_BLOCKING").value_or("")))
    wrong.emplace_back("CUDA_LAUNCH_BLOCKING=1 makes every kernel wait: for debugging alone");
  if (wrong.empty()) return Pass("nothing that contradicts itself");
  return Warn(Joined(wrong, "; "), "PyTorch does not do what these variables seem to ask for, or is slow",
              "rename or unset them");
}

Result Threads(const Machine& machine) {
  const auto threads = machine.Variable("OMP_NUM_THREADS");
  long count = 0;
  for (const std::string& name : machine.List("/sys/devices/system/cpu"))
    if (name.starts_with("cpu") && name.size() > 3 && Integer(name.substr(3))) ++count;
  if (count == 0) return Skip("the number of cores is not known");
  const int ranks = machine.local_ranks();
  if (!threads)
    return ranks > 1 ? Warn("OMP_NUM_THREADS is not set",
                            fmt::format("each of {} ranks may start {} threads on {} cores", ranks, count, count),
                            "set OMP_NUM_THREADS to the cores of one rank, or less")
                     : Pass("OMP_NUM_THREADS is not set, one rank");
  const auto number = Integer(Split(*threads, ",").front());
  const std::string seen = fmt::format("OMP_NUM_THREADS={}, {} ranks, {} cores", *threads, ranks, count);
  if (!number || *number < 1) return Warn(seen, "that is no number of threads", "set a number from 1 on");
  const std::string advice =
      count < ranks ? "start no more ranks than there are cores" : fmt::format("set OMP_NUM_THREADS={}", count / ranks);
  if (*number * ranks > count)
    return Warn(seen, "more threads than cores: ranks wait for one another's threads", advice);
  return Pass(seen);
}

Result NcclwatchVariables(const Machine& machine) {
  std::vector<std::string> entries;
  std::vector<const char*> pointers;
  for (const auto& [name, value] : machine.environment()) entries.push_back(name + "=" + value);
  for (const std::string& entry : entries) pointers.push_back(entry.c_str());
  pointers.push_back(nullptr);
  std::vector<std::string> complaints = settings::Misspelt(pointers.data());
  if (machine.is_this_one()) {
    std::vector<settings::Complaint> more;
    settings::OfThisProcess(&more);
    for (const settings::Complaint& complaint : more) complaints.push_back(complaint.text);
  }
  if (complaints.empty()) return Pass("no mistake in NCCLWATCH_* variables");
  return Warn(Joined(complaints, "; "), "ncclwatch takes the default instead",
              "correct the variable (docs/settings.md)");
}

constexpr Check kVariableChecks[] = {
    {"rendezvous", "MASTER_ADDR and MASTER_PORT", kAnyPhase, Rendezvous},
    {"world-size", "RANK, WORLD_SIZE and their local ones", kAnyPhase, WorldSize},
    {"nccl-variables", "NCCL_* variables", kAnyPhase, NcclVariables},
    {"socket-interface", "NCCL_SOCKET_IFNAME names an interface", kAnyPhase, SocketInterface},
    {"gloo-interface", "GLOO_SOCKET_IFNAME names an interface", kAnyPhase, GlooInterface},
    {"ib-variables", "NCCL_IB_DISABLE and NCCL_IB_HCA", kAnyPhase, IbVariables},
    {"torch-variables", "TORCH_NCCL_* and old names", kAnyPhase, TorchVariables},
    {"thread-count", "OMP_NUM_THREADS times ranks against cores", kScaleUp | kLongRun, Threads},
    {"ncclwatch-variables", "NCCLWATCH_* variables", kAnyPhase, NcclwatchVariables},
};

}  // namespace

std::span<const Check> VariableChecks() { return kVariableChecks; }

}  // namespace ncclwatch::doctor
