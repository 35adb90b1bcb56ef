#include "analyzer/triage/whose.h"

#include <absl/strings/numbers.h>

#include <map>
#include <set>
#include <string>
#include <utility>

namespace ncclwatch::analyzer {
namespace {

int Number(const Match& match, std::string_view name) {
  for (const auto& [key, value] : match.fields) {
    int number = 0;
    if (key == name && absl::SimpleAtoi(value, &number)) return number;
  }
  return -1;
}

struct Known {
  std::map<int, int> by_pid;
  std::map<std::pair<std::string, int>, int> by_local_rank;  // host and local rank
  std::set<std::string> hosts;
};

Known Gather(const std::vector<ScannedFile>& files) {
  Known known;
  for (const ScannedFile& file : files) {
    known.by_pid.insert(file.ranks_of_pids.begin(), file.ranks_of_pids.end());
    // torchrun's table: the line after "rank : 3 (local_rank: 3)" says "exitcode : 1 (pid: 4711)".
    int row_rank = -1;
    std::uint64_t row_line = 0;
    for (const Match& match : file.matches) {
      if (!match.host.empty() && !file.kernel) known.hosts.insert(match.host);
      const int pid = Number(match, "pid"), local = Number(match, "local_rank");
      if (match.rank < 0 && pid >= 0 && row_rank >= 0 && match.line == row_line + 1)
        known.by_pid.emplace(pid, row_rank);
      if (match.rank < 0) continue;
      row_rank = match.rank;
      row_line = match.line;
      if (pid >= 0) known.by_pid.emplace(pid, match.rank);
      if (local >= 0) known.by_local_rank.emplace(std::pair(match.host, local), match.rank);
      if (file.file.is_local) known.by_local_rank.emplace(std::pair(file.file.host, file.file.rank), match.rank);
    }
  }
  return known;
}

// A file of one local rank: any line that says the job's rank says it of all its lines.
int RankOfFile(const ScannedFile& file) {
  if (!file.file.is_local) return -1;
  for (const Match& match : file.matches)
    if (match.rank >= 0) return match.rank;
  return -1;
}

}  // namespace

void SettleRanks(std::vector<ScannedFile>* files) {
  const Known known = Gather(*files);
  for (ScannedFile& file : *files) {
    const int of_file = RankOfFile(file);
    for (Match& match : file.matches) {
      if (match.rank < 0) match.rank = of_file;
      const auto pid = known.by_pid.find(Number(match, "pid"));
      if (match.rank < 0 && pid != known.by_pid.end()) match.rank = pid->second;
      if (match.rank >= 0 || match.local_rank < 0) continue;
      const auto local = known.by_local_rank.find({match.host, match.local_rank});
      if (local != known.by_local_rank.end())
        match.rank = local->second;
      else if (known.hosts.size() <= 1 && !file.file.is_local)
        match.rank = match.local_rank;
    }
    const auto last = file.last.find(-1);
    if (of_file < 0 || last == file.last.end()) continue;
    file.last.emplace(of_file, last->second);
    file.last.erase(last);
  }
}

}  // namespace ncclwatch::analyzer
