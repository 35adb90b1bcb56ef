#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/words.h"

namespace ncclwatch::doctor {
namespace {

// Texts of the kernel and of NVIDIA's driver that stand for broken hardware, or for memory that ran out.
struct Trouble {
  std::string_view text, name;
};
constexpr Trouble kTroubles[] = {
    {"NVRM: Xid", "Xid of a GPU"},
    {"fallen off the bus", "GPU off the bus"},
    {"Machine check events logged", "machine check"},
    {"mce: [Hardware Error]", "machine check"},
    {"Out of memory: Killed process", "process killed for memory"},
    {"Memory cgroup out of memory", "process killed for memory"},
    {"EDAC MC", "memory error"},
    {"I/O error", "I/O error"},
    {"AER: Uncorrected", "PCIe error"},
    {"Link is Down", "network link down"},
    {"soft lockup", "soft lockup"},
    {"blocked for more than", "task that hung"},
};

// All of /dev/kmsg, a record a read; none where this user may not. The root's /dev/kmsg may be a plain file.
std::optional<std::string> KernelLog(const Machine& machine, std::string* why_not) {
  const int fd = open(machine.Below("/dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    *why_not = std::string("/dev/kmsg: ") + strerror(errno);
    return std::nullopt;
  }
  std::string text;
  std::array<char, 8192> record;
  constexpr std::size_t kMost = 16 << 20;
  while (text.size() < kMost) {
    const ssize_t size = read(fd, record.data(), record.size());
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;  // overwritten meanwhile
    if (size <= 0) break;
    text.append(record.data(), static_cast<std::size_t>(size));
  }
  close(fd);
  return text;
}

Result KernelLogQuiet(const Machine& machine) {
  std::string why;
  const auto log = KernelLog(machine, &why);
  if (!log) return Skip(why + ": look at `dmesg` as root");
  std::map<std::string_view, int> counts;
  for (const std::string& line : Split(*log, "\n"))
    for (const Trouble& trouble : kTroubles)
      if (line.find(trouble.text) != std::string::npos) {
        ++counts[trouble.name];
        break;
      }
  std::vector<std::string> found;
  for (const auto& [name, count] : counts) found.push_back(fmt::format("{} x {}", count, name));
  if (found.empty()) return Pass("no hardware fault in the kernel's log");
  return Warn(Joined(found), "this host has had such faults since it was started",
              "`dmesg -T`; drain the host where they come again");
}

Result SwitchedOff(const Machine& machine) {
  const auto tainted = machine.Number("/proc/sys/kernel/tainted");
  if (!tainted) return Skip("the kernel does not tell");
  constexpr auto kMachineCheck = 1u << 4, kDied = 1u << 7;
  const auto bits = static_cast<unsigned>(*tainted);
  if (bits & (kMachineCheck | kDied))
    return Warn(fmt::format("kernel.tainted={}", bits),
                bits & kDied ? "the kernel has had an oops" : "the processor has reported a machine check",
                "restart the host before a long run");
  return Pass(fmt::format("kernel.tainted={}", bits));
}

Result BootId(const Machine& machine) {
  const auto uptime = machine.Number("/proc/uptime");
  if (!uptime) return Skip("the kernel does not tell");
  return Pass(fmt::format("up for {:.0f} hours", *uptime / 3600));
}

constexpr Check kChecks[] = {
    {"kernel-log", "hardware faults in the kernel's log", kAnyPhase, KernelLogQuiet},
    {"kernel-state", "oopses and machine checks", kLongRun | kScaleUp, SwitchedOff},
    {"uptime", "since when the host is up", kLongRun, BootId},
};

Result Manual(const char* what) { return {Status::kManual, "", what, ""}; }
Result Loss(const Machine& /*machine*/) {
  return Manual("compare the loss of the first hundred steps with that of a run that was right");
}
Result Resume(const Machine& /*machine*/) {
  return Manual("end a short run on purpose and resume it from its checkpoint: loss and data order go on");
}
Result Scaling(const Machine& /*machine*/) {
  return Manual("measure tokens/s at a half and a quarter of the size; say what share is expected at full size");
}
Result Learning(const Machine& /*machine*/) {
  return Manual("batch size, learning rate and warm-up are those for this number of ranks");
}
Result OnCall(const Machine& /*machine*/) {
  return Manual("somebody is told when the job ends (NCCLWATCH_HOOK), and knows how to start it again");
}
Result Spare(const Machine& /*machine*/) { return Manual("spare hosts are there, and the scheduler requeues the job"); }

constexpr Check kManualChecks[] = {
    {"manual-loss", "first steps", kFirstRun, Loss},
    {"manual-resume", "resuming", kFirstRun | kLongRun, Resume},
    {"manual-scaling", "scaling", kScaleUp, Scaling},
    {"manual-hyperparameters", "hyperparameters", kScaleUp, Learning},
    {"manual-on-call", "who is called", kLongRun, OnCall},
    {"manual-spares", "spare hosts", kLongRun, Spare},
};

}  // namespace

std::span<const Check> KernelChecks() { return kChecks; }
std::span<const Check> ManualChecks() { return kManualChecks; }

}  // namespace ncclwatch::doctor
