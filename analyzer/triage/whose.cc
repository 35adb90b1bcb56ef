#include "analyzer/triage/whose.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <re2/re2.h>

#include <algorithm>
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

std::set<int> RanksIn(std::string_view list) {
  constexpr int kMost = 1 << 16;
  std::set<int> ranks;
  for (const absl::string_view part : absl::StrSplit(absl::string_view(list.data(), list.size()), ',')) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) continue;
    if (!absl::SimpleAtoi(ends.second, &last)) last = first;
    for (int rank = first; rank <= std::min(last, first + kMost); ++rank) ranks.insert(rank);
  }
  return ranks;
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
  std::map<std::pair<std::string, int>, int> by_local_rank;   // host and local rank
  std::map<std::pair<std::string, std::string>, int> by_gpu;  // host and PCI bus
  std::set<std::string> hosts;
};

Known Gather(const std::vector<ScannedFile>& files) {
  Known known;
  for (const ScannedFile& file : files) {
    known.by_pid.insert(file.ranks_of_pids.begin(), file.ranks_of_pids.end());
    known.by_gpu.insert(file.ranks_of_gpus.begin(), file.ranks_of_gpus.end());
    for (const auto& [gpu, rank] : file.ranks_of_gpus) known.hosts.insert(gpu.first);
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

// The host whose kernel wrote the file: one that ranks name, and that stands in the file's name.
std::string HostOfKernel(const Known& known, const ScannedFile& file) {
  std::string host;
  for (const std::string& each : known.hosts)
    if (each.size() > host.size() && file.file.path.find(each) != std::string::npos) host = each;
  return host;
}

// "0000:dc:00" is bus dc.
int RankOfGpu(const Known& known, const std::string& host, std::string_view pci) {
  static const RE2 pattern(R"(([0-9a-fA-F]{2}):[0-9a-fA-F]{2}(?:\.\d)?$)");
  std::string bus;
  if (!RE2::PartialMatch(re2::StringPiece(pci.data(), pci.size()), pattern, &bus)) return -1;
  const auto rank = known.by_gpu.find({host, absl::AsciiStrToLower(bus)});
  return rank == known.by_gpu.end() ? -1 : rank->second;
}

// The driver's lines about one GPU: one of them names the process, or NCCL had said whose GPU it is.
void SettleGpus(const Known& known, ScannedFile* file) {
  const std::string host = HostOfKernel(known, *file);
  std::map<std::string, int, std::less<>> ranks;
  const auto rank_of = [&](const Match& match) {
    const auto pid = known.by_pid.find(match.pid);
    return match.rank >= 0 ? match.rank : pid == known.by_pid.end() ? -1 : pid->second;
  };
  for (const Match& match : file->matches)
    if (!FieldOf(match, "gpu").empty() && rank_of(match) >= 0) ranks.emplace(FieldOf(match, "gpu"), rank_of(match));
  for (Match& match : file->matches) {
    const auto gpu = ranks.find(FieldOf(match, "gpu"));
    if (match.host.empty()) match.host = host;
    if (match.rank < 0)
      match.rank = gpu != ranks.end() ? gpu->second : RankOfGpu(known, match.host, FieldOf(match, "gpu"));
  }
}

// A file of one local rank: any line that says the job's rank says it of all its lines.
int RankOfFile(const ScannedFile& file) {
  if (!file.file.is_local) return -1;
  for (const Match& match : file.matches)
    if (match.rank >= 0) return match.rank;
  return file.named_rank;
}

// Files of one process each that say which rank they are: several do, and no two say the same.
void TakeNamedRanks(std::vector<ScannedFile>* files) {
  std::multiset<int> named;
  const auto is_open = [](const ScannedFile& file) {
    return file.streams.size() == 1 && !file.streams.front().is_process() && file.named_rank >= 0 && !file.kernel;
  };
  for (const ScannedFile& file : *files)
    if (is_open(file)) named.insert(file.named_rank);
  if (named.size() < 2) return;
  for (ScannedFile& file : *files)
    if (is_open(file) && named.count(file.named_rank) == 1) file.streams.front().rank = file.named_rank;
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
  TakeNamedRanks(files);
  const Known known = Gather(*files);
  for (ScannedFile& file : *files) {
    const int of_file = RankOfFile(file);
    const int of_table = FailedRankOfTable(rules, file);
    if (file.kernel) SettleGpus(known, &file);
    for (Stream& stream : file.streams) {
      if (stream.rank < 0) stream.rank = of_file;
      if (stream.rank < 0) stream.rank = RankOfPid(known, file, stream.pid);
    }
    for (Match& match : file.matches) {
      const Stream& stream = file.streams[match.stream];
      if (match.rank < 0 && rules[match.rule].role != Role::kConfirmation) match.rank = stream.rank;
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
  }
}

}  // namespace ncclwatch::analyzer
