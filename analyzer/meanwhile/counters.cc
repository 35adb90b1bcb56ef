#include "analyzer/meanwhile/counters.h"

#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "watchdog/rundir/process.h"

namespace ncclwatch::meanwhile {
namespace {

std::string Text(const std::string& path) { return rundir::ReadSmall(path, 65536).value_or(""); }

std::uint64_t MajorFaults(const std::string& stat) {
  constexpr int kAfterName = 10;  // state, parent, ..., majflt
  const std::size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream words(stat.substr(bracket + 1));
  std::string word;
  for (int i = 0; i < kAfterName; ++i) words >> word;
  std::uint64_t faults = 0;
  return std::istringstream(word) >> faults ? faults : 0;
}

std::uint64_t WrittenBytes(const std::string& io) {
  std::istringstream words(io);
  std::string name;
  for (std::uint64_t value = 0; words >> name >> value;)
    if (name == "write_bytes:") return value;
  return 0;
}

}  // namespace

std::int64_t ThrottledNs(const std::string& cpu_stat) {
  std::istringstream words(cpu_stat);
  std::string name;
  for (std::int64_t value = 0; words >> name >> value;) {
    if (name == "throttled_usec") return value * 1000;
    if (name == "throttled_time") return value;
  }
  return 0;
}

std::string CpuStatPath(const std::string& cgroup_text, const std::string& root) {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(cgroup_text, '\n'))) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));  // "0::/a", "3:cpu,cpuacct:/a"
    if (parts.size() < 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool of_one = std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end();
    if (!of_one && !parts[1].empty()) continue;
    const std::string path = root + (of_one ? "/" + parts[1] : "") + (parts[2] == "/" ? "" : parts[2]) + "/cpu.stat";
    if (!Text(path).empty()) return path;
  }
  return "";
}

Counters CountersOf(int pid, int tid) {
  Counters counters;
  const std::string task = fmt::format("/proc/{}/task/{}", pid, tid);
  std::istringstream(Text(task + "/schedstat")) >> counters.run_ns >> counters.queued_ns;
  counters.major_faults = MajorFaults(Text(task + "/stat"));
  counters.written = WrittenBytes(Text(task + "/io"));
  const std::string stat = CpuStatPath(Text(fmt::format("/proc/{}/cgroup", pid)));
  if (!stat.empty()) counters.throttled_ns = ThrottledNs(Text(stat));
  return counters;
}

void AddBetween(const Counters& before, const Counters& after, reader::Meanwhile* to) {
  to->run_ns += std::max<std::int64_t>(0, after.run_ns - before.run_ns);
  to->queued_ns += std::max<std::int64_t>(0, after.queued_ns - before.queued_ns);
  to->throttled_ns += std::max<std::int64_t>(0, after.throttled_ns - before.throttled_ns);
  to->major_faults += std::max(after.major_faults, before.major_faults) - before.major_faults;
}

}  // namespace ncclwatch::meanwhile
