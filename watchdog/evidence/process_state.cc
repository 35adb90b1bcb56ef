#include "watchdog/evidence/process_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "watchdog/rundir/process.h"

namespace ncclwatch::evidence {
namespace {

using format::Observed;

bool Has(const std::string& path, const char* what) {
  return rundir::ReadSmall(path, 4096).value_or("").find(what) != std::string::npos;
}

bool IsFrozen(std::int32_t pid) {
  const std::string lines = rundir::ReadSmall(fmt::format("/proc/{}/cgroup", pid), 65536).value_or("");
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("0::")) {
      const std::string group = line.substr(3);
      if (Has("/sys/fs/cgroup" + group + "/cgroup.events", "frozen 1") ||
          Has("/sys/fs/cgroup/unified" + group + "/cgroup.events", "frozen 1"))
        return true;
    }
    const std::size_t freezer = line.find(":freezer:");
    if (freezer != std::string::npos &&
        Has("/sys/fs/cgroup/freezer" + line.substr(freezer + 9) + "/freezer.state", "FR"))  // FROZEN or FREEZING
      return true;
  }
  return false;
}

}  // namespace

Observed StateOf(std::int32_t pid, std::uint64_t start_time) {
  const std::optional<rundir::ProcessStat> stat = rundir::StatOf(pid);
  if (!stat || stat->start_time != start_time || stat->state == 'Z' || stat->state == 'X') return Observed::kGone;
  if (Has(fmt::format("/proc/{}/status", pid), "CoreDumping:\t1")) return Observed::kDumping;
  if (IsFrozen(pid)) return Observed::kFrozen;
  if (stat->state == 't') return Observed::kTraced;
  if (stat->state == 'T') return Observed::kStopped;
  if (stat->state == 'D') return Observed::kStuck;
  return Observed::kRunning;
}

}  // namespace ncclwatch::evidence
