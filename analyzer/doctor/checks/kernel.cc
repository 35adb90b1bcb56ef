#include <fmt/core.h>

#include <map>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/kernel_log.h"
#include "analyzer/doctor/checks/words.h"

namespace ncclwatch::doctor {
namespace {

Result KernelLogQuiet(const Machine& machine) {
  std::string why;
  const auto log = KernelLog(machine, &why);
  if (!log) return Skip(why + ": look at `dmesg` as root");
  std::map<std::string_view, int> counts;
  for (const std::string& line : Split(*log, "\n"))
    if (const std::string_view trouble = TroubleIn(line); !trouble.empty()) ++counts[trouble];
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

constexpr Check kKernelChecks[] = {
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
  return Manual("somebody gets a message when the job ends (NCCLWATCH_HOOK), and knows how to restart it");
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

std::span<const Check> KernelChecks() { return kKernelChecks; }
std::span<const Check> ManualChecks() { return kManualChecks; }

}  // namespace ncclwatch::doctor
