#include "analyzer/attach/logs.h"

#include <absl/time/clock.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analyzer/triage/follow.h"
#include "analyzer/triage/read_logs.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer::attach {
namespace {

constexpr std::uint64_t kMostBytes = 256 << 20;  // of all files: about a second a core

struct Output {
  LogFile file;
  double written_s = 0;  // CLOCK_REALTIME
};

// By inode: what several ranks write into is nobody's.
using Outputs = std::map<std::pair<dev_t, ino_t>, Output>;

void AddOutputs(int pid, int rank, Outputs* outputs) {
  for (const int descriptor : {1, 2}) {
    const std::string link = fmt::format("/proc/{}/fd/{}", pid, descriptor);
    struct stat open {
    }, named{};
    std::array<char, 4096> path{};
    if (stat(link.c_str(), &open) != 0 || !S_ISREG(open.st_mode)) continue;
    if (readlink(link.c_str(), path.data(), path.size() - 1) <= 0) continue;
    const bool same = stat(path.data(), &named) == 0 && named.st_ino == open.st_ino && named.st_dev == open.st_dev;
    const auto [known, fresh] = outputs->try_emplace({open.st_dev, open.st_ino});
    Output& output = known->second;
    if (!fresh && output.file.rank != rank) output.file.rank = -1;
    if (!fresh) continue;
    output.file = {same ? path.data() : link, rank, false, "", static_cast<std::uint64_t>(open.st_size)};
    output.written_s = static_cast<double>(open.st_mtim.tv_sec) + static_cast<double>(open.st_mtim.tv_nsec) * 1e-9;
  }
}

void FindCause(const std::vector<LogFile>& files, Logs* logs) {
  const auto matcher = MakeMatcher({});
  if (!matcher.ok()) return;
  const Triage triage = TriageOf(*matcher, files);
  if (!IsFailure(triage) || triage.causes.empty()) return;
  const TriageFinding& cause = triage.causes.front();
  logs->cause = fmt::format("{}: {} ({}:{})", cause.rule->category, cause.summary, cause.first.file, cause.first.line);
  if (cause.first.at) logs->cause_at_s = absl::ToDoubleSeconds(*cause.first.at - absl::UnixEpoch());
}

}  // namespace

Logs ReadLogs(const RunningJob& job) {
  Outputs outputs;
  for (const RankProcess& one : job.ranks) {
    AddOutputs(one.pid, one.rank, &outputs);
    if (const auto stat = rundir::StatOf(one.pid)) AddOutputs(stat->parent, -1, &outputs);
  }
  Logs logs;
  std::vector<LogFile> files;
  std::uint64_t bytes = 0;
  double last_s = 0;
  for (const auto& [inode, output] : outputs) {
    last_s = std::max(last_s, output.written_s);
    if (bytes + output.file.bytes > kMostBytes) continue;
    bytes += output.file.bytes;
    files.push_back(output.file);
  }
  logs.files = static_cast<int>(outputs.size());
  if (logs.files == 0) return logs;
  logs.silent_s = std::max(0.0, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - last_s);
  FindCause(files, &logs);
  return logs;
}

Logs Joined(const Logs& a, const Logs& b) {
  if (a.files == 0 || b.files == 0) return a.files == 0 ? b : a;
  const bool first = b.cause.empty() || (!a.cause.empty() && (b.cause_at_s == 0 || a.cause_at_s <= b.cause_at_s));
  Logs joined = first ? a : b;
  joined.files = a.files + b.files;
  joined.silent_s = std::min(a.silent_s, b.silent_s);
  return joined;
}

}  // namespace ncclwatch::analyzer::attach
