#include "watchdog/watch/process/tracer.h"

#include <sys/prctl.h>

#include <optional>
#include <string>

#include "watchdog/rundir/process.h"

namespace ncclwatch::watch {
namespace {

constexpr int kSetPtracer = 0x59616d61;  // PR_SET_PTRACER of <linux/prctl.h>

}  // namespace

void AllowTracing(std::int32_t pid) {
  // Asked each time: an administrator may change it while the job runs, and the leader seldom changes.
  const std::optional<std::string> scope = rundir::ReadSmall("/proc/sys/kernel/yama/ptrace_scope", 16);
  if (scope && scope->starts_with("1")) prctl(kSetPtracer, static_cast<unsigned long>(pid), 0, 0, 0);
}

}  // namespace ncclwatch::watch
