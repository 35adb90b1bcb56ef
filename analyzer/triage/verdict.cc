#include "analyzer/triage/verdict.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {
namespace {

// Whose line it is, where the line alone does not say: by what other lines say of processes, hosts and local ranks.

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

// A cause that says more beats an exception or a signal that came up to this much earlier: clocks of kernel and
// program differ, and an exception is often printed before its reason is.
constexpr absl::Duration kSameMoment = absl::Seconds(60);
// Ranks that show the same within this of the first are told together with it.
constexpr absl::Duration kTogether = absl::Seconds(10);
// Old lines of a kernel's log are about other jobs.
constexpr absl::Duration kBeforeJob = absl::Minutes(5), kAfterJob = absl::Minutes(10);
// Who wrote so much for so long afterwards did not fail of it.
constexpr std::uint64_t kWentOnLines = 200;
constexpr absl::Duration kWentOnFor = absl::Minutes(1);

std::string_view FieldOf(const Match& match, std::string_view name) {
  for (const auto& [key, value] : match.fields)
    if (key == name) return value;
  return {};
}

// "{size}" by the field of that name; what is not there leaves nothing.
std::string Fill(std::string_view summary, const Match& match) {
  std::string text;
  while (!summary.empty()) {
    const std::size_t open = summary.find('{');
    const std::size_t close = open == std::string_view::npos ? open : summary.find('}', open);
    if (close == std::string_view::npos) break;
    const std::string_view value = FieldOf(match, summary.substr(open + 1, close - open - 1));
    text.append(summary.substr(0, open)).append(value);
    summary.remove_prefix(close + 1);
  }
  return text.append(summary);
}

bool Earlier(const std::optional<absl::Time>& a, const std::optional<absl::Time>& b) {
  if (a && b) return *a < *b;
  return a && !b;
}

struct Window {
  absl::Time begin = absl::InfiniteFuture(), end = absl::InfinitePast();
  bool Contains(absl::Time time) const { return begin > end || (time >= begin && time <= end); }
};

Window WindowOfJob(const std::vector<ScannedFile>& files) {
  Window window;
  for (const ScannedFile& file : files) {
    for (const auto& [rank, last] : file.last) {
      if (file.kernel || last.at == absl::Time()) continue;
      window.begin = std::min(window.begin, last.first_at - kBeforeJob);
      window.end = std::max(window.end, last.at + kAfterJob);
    }
  }
  return window;
}

// What is wrong with numbers, or with the machine, stays a cause though the job goes on for a while.
bool WentOn(const ScannedFile& file, const Match& match, const Rule& rule) {
  if (file.kernel || rule.category == "numerics" || rule.category == "hardware" || !match.at) return false;
  const auto last = file.last.find(file.last.count(match.rank) ? match.rank : -1);
  if (last == file.last.end()) return false;
  const LastLine& end = last->second;
  return end.line > match.line + kWentOnLines && end.at - *match.at > kWentOnFor;
}

using Key = std::pair<const Rule*, std::string>;

struct Group {
  std::vector<const Match*> matches;
  bool unsure = false;
};

// Of the lines that are about this job: those of one rule together.
std::map<Key, Group> Gather(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files) {
  const Window window = WindowOfJob(files);
  std::map<Key, Group> groups;
  for (const ScannedFile& file : files) {
    for (const Match& match : file.matches) {
      const Rule& rule = rules[match.rule];
      if (WentOn(file, match, rule)) continue;
      if (file.kernel && match.at && !window.Contains(*match.at)) continue;
      Group& group = groups[{&rule, std::string(FieldOf(match, "exception"))}];
      group.matches.push_back(&match);
      // It may be about another job: no process of this one is named, and no time.
      group.unsure = file.kernel && match.rank < 0 && !match.at;
    }
  }
  return groups;
}

// "0-3,7", as Slurm writes tasks.
void AddRanks(std::string_view list, std::set<int>* ranks) {
  constexpr int kMost = 1 << 16;
  for (const absl::string_view part : absl::StrSplit(absl::string_view(list.data(), list.size()), ',')) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) continue;
    if (!absl::SimpleAtoi(ends.second, &last)) last = first;
    for (int rank = first; rank <= std::min(last, first + kMost); ++rank) ranks->insert(rank);
  }
}

TriageFinding Tell(const Key& key, Group group) {
  std::stable_sort(group.matches.begin(), group.matches.end(),
                   [](const Match* a, const Match* b) { return Earlier(a->at, b->at); });
  TriageFinding reported;
  reported.rule = key.first;
  reported.confidence = group.unsure ? Confidence::kSuspected : key.first->confidence;
  reported.first = *group.matches.front();
  std::set<int> ranks;
  for (const Match* match : group.matches) {
    reported.lines += match->times;
    const bool together = !match->at || !reported.first.at || *match->at - *reported.first.at <= kTogether;
    if (!together) continue;
    if (match->rank >= 0) ranks.insert(match->rank);
    AddRanks(FieldOf(*match, "ranks"), &ranks);
  }
  reported.ranks.assign(ranks.begin(), ranks.end());
  reported.summary = Fill(key.first->summary, reported.first);
  return reported;
}

// What says more is told before what says less at the same moment; then by time.
void SortCauses(std::vector<TriageFinding>* causes) {
  std::stable_sort(causes->begin(), causes->end(),
                   [](const TriageFinding& a, const TriageFinding& b) { return Earlier(a.first.at, b.first.at); });
  std::vector<TriageFinding> sorted;
  while (!causes->empty()) {
    auto next = causes->begin();
    if (next->rule->generic) {
      const auto better = std::find_if(causes->begin(), causes->end(), [&](const TriageFinding& other) {
        const bool close = !other.first.at || !next->first.at || *other.first.at - *next->first.at <= kSameMoment;
        return !other.rule->generic && close;
      });
      if (better != causes->end()) next = better;
    }
    sorted.push_back(std::move(*next));
    causes->erase(next);
  }
  *causes = std::move(sorted);
}

std::vector<Silent> SilentRanks(const std::vector<ScannedFile>& files) {
  constexpr absl::Duration kLeast = absl::Seconds(30);
  constexpr double kGaps = 20;  // of its own lines
  std::map<int, LastLine> last;
  for (const ScannedFile& file : files) {
    for (const auto& [rank, line] : file.last) {
      if (rank < 0 || file.kernel || line.at == absl::Time()) continue;
      auto [row, fresh] = last.emplace(rank, line);
      if (!fresh && line.at > row->second.at) row->second = line;
    }
  }
  std::vector<absl::Time> ends;
  for (const auto& [rank, line] : last) ends.push_back(line.at);
  std::vector<Silent> silent;
  if (ends.size() < 3) return silent;
  std::nth_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 2), ends.end());
  const absl::Time middle = ends[ends.size() / 2];
  for (const auto& [rank, line] : last) {
    const double lines = static_cast<double>(std::max<std::uint64_t>(line.lines, 1));
    const absl::Duration gap = std::max(kLeast, kGaps * ((line.at - line.first_at) / lines));
    if (middle - line.at > gap) silent.push_back({rank, line});
  }
  // Where many stop early, the others are those that are odd.
  if (silent.size() * 2 > last.size()) silent.clear();
  return silent;
}

// Nothing else is known: the first that speaks of the failure at all. Who fell silent before is whom it waited for.
void TakeEcho(Triage* triage) {
  if (triage->echoes.empty()) return;
  TriageFinding reported = triage->echoes.front();
  triage->echoes.erase(triage->echoes.begin());
  reported.confidence = Confidence::kSuspected;
  const std::string& category = reported.rule->category;
  const bool waits = category == "timeout" || category == "nccl" || category == "network";
  if (waits && !triage->silent.empty()) {
    reported.ranks.clear();
    for (const Silent& silent : triage->silent) reported.ranks.push_back(silent.rank);
    reported.summary += " Before that, the ranks named here stopped writing.";
  }
  triage->causes.push_back(std::move(reported));
}

}  // namespace

Triage Judge(const std::vector<Rule>& rules, std::vector<ScannedFile> files) {
  SettleRanks(&files);
  Triage triage;
  triage.files = files.size();
  for (const ScannedFile& file : files) {
    triage.bytes += file.bytes;
    if (!file.error.empty()) triage.failures.push_back(file.file.path + ": " + file.error);
  }
  for (auto& [key, group] : Gather(rules, files)) {
    std::vector<TriageFinding>& list = key.first->role == Role::kCause  ? triage.causes
                                       : key.first->role == Role::kEcho ? triage.echoes
                                                                        : triage.confirmations;
    list.push_back(Tell(key, std::move(group)));
  }
  SortCauses(&triage.causes);
  for (std::vector<TriageFinding>* list : {&triage.echoes, &triage.confirmations})
    std::stable_sort(list->begin(), list->end(),
                     [](const TriageFinding& a, const TriageFinding& b) { return Earlier(a.first.at, b.first.at); });
  triage.silent = SilentRanks(files);
  if (triage.causes.empty()) TakeEcho(&triage);
  triage.unknown = triage.causes.empty() && !triage.confirmations.empty();
  return triage;
}

}  // namespace ncclwatch::analyzer
