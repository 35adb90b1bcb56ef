#include "analyzer/triage/whose.h"

#include <absl/strings/numbers.h>

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace ncclwatch::analyzer {

std::string_view FieldOf(const Match& match, std::string_view name) {
  for (const auto& [key, value] : match.fields)
    if (key == name) return value;
  return {};
}

int NumberOf(const Match& match, std::string_view name) {
  int number = 0;
  return absl::SimpleAtoi(std::string(FieldOf(match, name)), &number) ? number : -1;
}

std::string TemplateOf(std::string_view text) {
  std::string shape;
  bool in_number = false;
  for (const char letter : text) {
    const bool number = std::isdigit(static_cast<unsigned char>(letter)) ||
                        (in_number && std::isxdigit(static_cast<unsigned char>(letter)));
    if (number && !in_number) shape += '#';
    if (!number) shape += letter;
    in_number = number;
  }
  return shape;
}

namespace {

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
      const int pid = match.pid, local = NumberOf(match, "local_rank");
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

// A traceback without a rank above torchrun's table is that of the one rank that the table says failed by itself.
int FailedRankOfTable(const std::vector<Rule>& rules, const ScannedFile& file) {
  int row_rank = -1;
  std::set<int> failed;
  for (const Match& match : file.matches) {
    if (rules[match.rule].role != Role::kConfirmation) continue;
    if (match.rank >= 0 && NumberOf(match, "local_rank") >= 0) row_rank = match.rank;
    if (row_rank >= 0 && NumberOf(match, "exitcode") > 0 && NumberOf(match, "local_rank") < 0) failed.insert(row_rank);
  }
  return failed.size() == 1 ? *failed.begin() : -1;
}

// The driver's lines about one GPU: one of them names the process.
void SettleGpus(const Known& known, ScannedFile* file) {
  std::map<std::string, int, std::less<>> ranks;
  const auto rank_of = [&](const Match& match) {
    const auto pid = known.by_pid.find(match.pid);
    return match.rank >= 0 ? match.rank : pid == known.by_pid.end() ? -1 : pid->second;
  };
  for (const Match& match : file->matches)
    if (!FieldOf(match, "gpu").empty() && rank_of(match) >= 0) ranks.emplace(FieldOf(match, "gpu"), rank_of(match));
  for (Match& match : file->matches) {
    const auto gpu = ranks.find(FieldOf(match, "gpu"));
    if (match.rank < 0 && gpu != ranks.end()) match.rank = gpu->second;
  }
}

// A file of one local rank: any line that says the job's rank says it of all its lines.
int RankOfFile(const ScannedFile& file) {
  if (!file.file.is_local) return -1;
  for (const Match& match : file.matches)
    if (match.rank >= 0) return match.rank;
  return -1;
}

// Pids of two containers may be equal: those of the match's own file go first.
int RankOfPid(const Known& known, const ScannedFile& file, int pid) {
  const auto own = file.ranks_of_pids.find(pid);
  if (own != file.ranks_of_pids.end()) return own->second;
  const auto any = known.by_pid.find(pid);
  return any == known.by_pid.end() ? -1 : any->second;
}

}  // namespace

void SettleRanks(const std::vector<Rule>& rules, std::vector<ScannedFile>* files) {
  const Known known = Gather(*files);
  for (ScannedFile& file : *files) {
    const int of_file = RankOfFile(file);
    const int of_table = FailedRankOfTable(rules, file);
    if (file.kernel) SettleGpus(known, &file);
    for (Match& match : file.matches) {
      if (match.rank < 0) match.rank = of_file;
      if (match.rank < 0) match.rank = RankOfPid(known, file, match.pid);
      if (match.rank < 0 && match.exception && rules[match.rule].role == Role::kCause) match.rank = of_table;
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
