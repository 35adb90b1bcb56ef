#include "analyzer/triage/verdict.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/triage/scan.h"
#include "analyzer/triage/whose.h"

namespace ncclwatch::analyzer {

namespace {

// A cause that says more beats an exception or a signal that came up to this much earlier: clocks of kernel and
// program differ, and an exception is often printed before its reason is.
constexpr absl::Duration kSameMoment = absl::Seconds(60);
// Ranks that show the same within this of the first are told together with it.
constexpr absl::Duration kTogether = absl::Seconds(10);
// Old lines of a kernel's log are about other jobs.
constexpr absl::Duration kBeforeJob = absl::Minutes(5), kAfterJob = absl::Minutes(10);
// What the kernel says may be about another job: it counts this long before and after a rank's end.
constexpr absl::Duration kKernelBefore = absl::Minutes(10), kKernelAfter = absl::Minutes(2);

// "{size}" by the field of that name. `all`: every one of them is there.
std::string FillFields(std::string_view summary, const Match& match, bool* all) {
  std::string text;
  while (!summary.empty()) {
    const std::size_t open = summary.find('{');
    const std::size_t close = open == std::string_view::npos ? open : summary.find('}', open);
    if (close == std::string_view::npos) break;
    const std::string_view value = FieldOf(match, summary.substr(open + 1, close - open - 1));
    *all = *all && !value.empty();
    text.append(summary.substr(0, open)).append(value);
    summary.remove_prefix(close + 1);
  }
  return text.append(summary);
}

// "[ ({signal})]" is left out if a field in it is empty.
std::string Fill(std::string_view summary, const Match& match) {
  std::string text;
  while (!summary.empty()) {
    const std::size_t open = summary.find('[');
    const std::size_t close = open == std::string_view::npos ? open : summary.find(']', open);
    bool all = true;
    if (close == std::string_view::npos) return text + FillFields(summary, match, &all);
    text += FillFields(summary.substr(0, open), match, &all);
    all = true;
    const std::string part = FillFields(summary.substr(open + 1, close - open - 1), match, &all);
    if (all) text += part;
    summary.remove_prefix(close + 1);
  }
  return text;
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

using Key = std::pair<const Rule*, std::string>;

struct Group {
  std::vector<const Match*> matches;
  bool unsure = false;
};

class Case {
 public:
  Case(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, const HarmlessLines& baseline)
      : rules_(rules), files_(files), course_(rules, files), ends_(EndsOf(rules, files, course_)) {
    harmless_ = baseline.templates;
    for (const ScannedFile& file : files) {
      only_kernel_ = only_kernel_ && file.kernel;
      for (const Match& match : file.matches) {
        failed_ = failed_ || ShowsFailure(file, match);
        if (rules[match.rule].role == Role::kEcho && !course_.WentOn(file, match)) lost_.insert(match.rank);
        if (course_.WentOn(file, match) && rules[match.rule].role != Role::kConfirmation)
          harmless_.insert(TemplateOf(match.text));
      }
    }
    // The exit status of a rank that says it waited in vain, or lost another one, follows from that.
    lost_.erase(-1);
    for (RankEnd& ended : ends_)
      if (lost_.count(ended.rank) && ended.how == EndKind::kExit) ended.consequence = true;
  }

  const std::vector<RankEnd>& ends() const { return ends_; }
  const RankEnd* first() const { return FirstEnd(ends_); }
  bool healthy() const { return !only_kernel_ && (!failed_ || course_.succeeded()); }

  // Whether the match may be told as a cause, an echo or a confirmation.
  bool Counts(const ScannedFile& file, const Match& match) const {
    const Rule& rule = rules_[match.rule];
    if (rule.role == Role::kSuccess || course_.WentOn(file, match)) return false;
    if (rule.role != Role::kCause || only_kernel_) return true;
    if (file.kernel) return KernelCounts(match);
    if (match.chained && rule.traceback) return false;
    if (!match.exception && harmless_.count(TemplateOf(match.text))) return false;
    return !OnlyAWarning(rule, match) || course_.IsLast(file, match);
  }

  // An exception of a rank that had already said that it lost another one, or waited too long.
  bool Follows(const ScannedFile& file, const Match& match) const {
    const Rule& rule = rules_[match.rule];
    if (!rule.generic || !rule.traceback) return false;
    for (const Match& other : file.matches) {
      const Rule& echo = rules_[other.rule];
      const bool lost = echo.role == Role::kEcho && (echo.category == "timeout" || echo.category == "nccl");
      if (lost && other.rank == match.rank && match.rank >= 0 && other.line < match.line) return true;
    }
    return false;
  }

  // Whether the cause's line belongs to an end, or is about what need not stand at one: the machine, numbers.
  bool NearEnd(const TriageFinding& cause) const {
    const Match& match = cause.first;
    if (match.exception || !cause.rule->end.empty() || cause.rule->category == "numerics") return true;
    for (const ScannedFile& file : files_)
      if (file.file.path == match.file &&
          (file.kernel ? KernelIsNear(*cause.rule, match) : course_.IsLast(file, match)))
        return true;
    return false;
  }

 private:
  static bool OnlyAWarning(const Rule& rule, const Match& match) {
    if (rule.category == "numerics" || rule.category == "terminated" || rule.category == "hardware") return false;
    return !match.exception && (match.level == LogLevel::kInfo || match.level == LogLevel::kWarning);
  }

  // A line that a healthy job does not write at its end.
  bool ShowsFailure(const ScannedFile& file, const Match& match) const {
    const Rule& rule = rules_[match.rule];
    if (rule.role == Role::kSuccess || rule.weak || file.kernel || course_.WentOn(file, match)) return false;
    if (rule.role == Role::kConfirmation || match.exception || !rule.end.empty()) return true;
    const bool grave = rule.role == Role::kCause && rule.confidence == Confidence::kCertain;
    return (grave || course_.IsLast(file, match)) && !OnlyAWarning(rule, match);
  }

  // A kill of a process that nobody knows matters only if a rank was killed.
  bool KernelIsNear(const Rule& rule, const Match& match) const {
    if (match.rank >= 0 || rule.category == "hardware" || ends_.empty()) return true;
    return std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& ended) { return ended.how == EndKind::kKilled; });
  }

  // About a process of this job, or at the time at which one of its ranks ended.
  bool KernelCounts(const Match& match) const {
    if (match.rank >= 0 || !match.at) return true;
    bool any = false;
    for (const RankEnd& ended : ends_) {
      if (!ended.at) continue;
      any = true;
      if (*match.at >= *ended.at - kKernelBefore && *match.at <= *ended.at + kKernelAfter) return true;
    }
    return !any;
  }

  const std::vector<Rule>& rules_;
  const std::vector<ScannedFile>& files_;
  const Course course_;
  std::vector<RankEnd> ends_;
  std::set<std::string> harmless_;  // templates of lines after which ranks went on
  std::set<int> lost_;              // ranks with echoes
  bool failed_ = false, only_kernel_ = true;
};

// Of the lines that are about this job: those of one rule together. `echoes`: causes that follow from others.
std::map<Key, Group> Gather(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, const Case& job,
                            std::map<Key, Group>* follows) {
  const Window window = WindowOfJob(files);
  std::map<Key, Group> groups;
  for (const ScannedFile& file : files) {
    for (const Match& match : file.matches) {
      if (!job.Counts(file, match)) continue;
      if (file.kernel && match.at && !window.Contains(*match.at)) continue;
      const Rule& rule = rules[match.rule];
      std::map<Key, Group>& where = job.Follows(file, match) ? *follows : groups;
      Group& group = where[{&rule, std::string(FieldOf(match, "exception"))}];
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

// Causes that stand at an end come before lines that only look bad. If a rank's end was seen, the latter explain
// nothing.
void PreferEnds(const Case& job, std::vector<TriageFinding>* causes) {
  const auto rest = std::stable_partition(causes->begin(), causes->end(),
                                          [&](const TriageFinding& cause) { return job.NearEnd(cause); });
  const RankEnd* const first = job.first();
  if (first && first->rank >= 0 && rest == causes->begin()) causes->clear();
}

// Certain only if the line stands at an end.
void Weigh(const Case& job, std::vector<TriageFinding>* causes) {
  for (TriageFinding& cause : *causes)
    if (cause.confidence == Confidence::kCertain && !job.NearEnd(cause)) cause.confidence = Confidence::kLikely;
}

// All ranks but one say that they waited: a cause without a rank belongs to that one.
int RankMissingFrom(const std::vector<TriageFinding>& echoes) {
  std::set<int> waited;
  for (const TriageFinding& echo : echoes)
    if (echo.rule->category == "timeout") waited.insert(echo.ranks.begin(), echo.ranks.end());
  if (waited.size() < 2) return -1;
  int missing = -1;
  for (int rank = 0; rank < *waited.rbegin(); ++rank) {
    if (waited.count(rank)) continue;
    if (missing >= 0) return -1;
    missing = rank;
  }
  return missing;
}

int Attempts(const std::vector<ScannedFile>& files, const Rule* rule, const std::vector<Rule>& rules) {
  static const RE2 pattern(R"(attempt_(\d+)/)");
  std::set<int> attempts;
  for (const ScannedFile& file : files) {
    int attempt = 0;
    if (!RE2::PartialMatch(file.file.path, pattern, &attempt)) continue;
    for (const Match& match : file.matches)
      if (&rules[match.rule] == rule) attempts.insert(attempt);
  }
  return static_cast<int>(attempts.size());
}

void Advise(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, Triage* triage) {
  if (triage->causes.empty() && !triage->unknown) return;
  if (triage->causes.empty()) {
    triage->restart = RestartAdvice("", "", {}, 1);
    return;
  }
  const TriageFinding& cause = triage->causes.front();
  std::vector<std::string> hosts;
  if (!cause.first.host.empty()) hosts.push_back(cause.first.host);
  triage->restart =
      RestartAdvice(cause.rule->category, cause.rule->restart, std::move(hosts), Attempts(files, cause.rule, rules));
}

// Nobody explains the first end: the rank's own last lines are quoted.
void QuoteLastLines(const std::vector<ScannedFile>& files, const Case& job, Triage* triage) {
  constexpr std::size_t kMost = 12;
  const RankEnd* const first = job.first();
  if (!first) return;
  triage->unexplained = Unexplained{*first, {}};
  std::vector<std::string>& lines = triage->unexplained->lines;
  for (const ScannedFile& file : files) {
    if (file.kernel || (file.file.rank >= 0 && file.file.rank != first->rank)) continue;
    if (file.file.rank < 0 && file.file.path != first->file) continue;
    for (const TailLine& line : file.tail)
      if ((line.rank < 0 || line.rank == first->rank) && (file.file.rank >= 0 || line.line <= first->line))
        lines.push_back(line.text);
  }
  if (lines.size() > kMost) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMost));
}

void AddSilent(Triage* triage) {
  for (const Silent& silent : triage->silent) {
    const bool known = std::any_of(triage->ended.begin(), triage->ended.end(),
                                   [&](const RankEnd& ended) { return ended.rank == silent.rank; });
    if (!known)
      triage->ended.push_back(
          {silent.rank, EndKind::kSilent, std::nullopt, silent.last.at, silent.last.file, silent.last.line, false});
  }
  std::stable_sort(triage->ended.begin(), triage->ended.end(),
                   [](const RankEnd& a, const RankEnd& b) { return Earlier(a.at, b.at); });
}

// Nothing else is known: the first that speaks of the failure at all. Who fell silent before is whom it waited for.
void TakeEcho(Triage* triage) {
  const auto first = std::find_if(triage->echoes.begin(), triage->echoes.end(), [](const TriageFinding& echo) {
    return echo.rule->role == Role::kEcho && !echo.rule->weak;
  });
  if (first == triage->echoes.end()) return;
  TriageFinding reported = *first;
  triage->echoes.erase(first);
  // That they waited too long is a fact; what else an echo says is a guess.
  reported.confidence = reported.rule->category == "timeout" ? Confidence::kLikely : Confidence::kSuspected;
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

HarmlessLines BaselineOf(const std::vector<ScannedFile>& files) {
  HarmlessLines baseline;
  for (const ScannedFile& file : files)
    for (const Match& match : file.matches) baseline.templates.insert(TemplateOf(match.text));
  return baseline;
}

Triage Judge(const std::vector<Rule>& rules, std::vector<ScannedFile> files, const HarmlessLines& baseline) {
  SettleRanks(rules, &files);
  Triage triage;
  triage.files = files.size();
  for (const ScannedFile& file : files) {
    triage.bytes += file.bytes;
    if (!file.error.empty()) triage.failures.push_back(file.file.path + ": " + file.error);
  }
  const Case job(rules, files, baseline);
  triage.ended = job.ends();
  triage.silent = SilentRanks(files);
  if (job.healthy()) return triage;
  AddSilent(&triage);
  std::map<Key, Group> follows;
  for (auto& [key, group] : Gather(rules, files, job, &follows)) {
    std::vector<TriageFinding>& list = key.first->role == Role::kCause  ? triage.causes
                                       : key.first->role == Role::kEcho ? triage.echoes
                                                                        : triage.confirmations;
    list.push_back(Tell(key, std::move(group)));
  }
  for (auto& [key, group] : follows) triage.echoes.push_back(Tell(key, std::move(group)));
  SortCauses(&triage.causes);
  PreferEnds(job, &triage.causes);
  for (std::vector<TriageFinding>* list : {&triage.echoes, &triage.confirmations})
    std::stable_sort(list->begin(), list->end(),
                     [](const TriageFinding& a, const TriageFinding& b) { return Earlier(a.first.at, b.first.at); });
  if (!triage.causes.empty() && triage.causes.front().ranks.empty() && triage.causes.front().first.exception)
    if (const int rank = RankMissingFrom(triage.echoes); rank >= 0) triage.causes.front().ranks = {rank};
  Weigh(job, &triage.causes);
  if (triage.causes.empty() && !(job.first() && job.first()->rank >= 0)) TakeEcho(&triage);
  triage.unknown = triage.causes.empty();
  if (triage.unknown) QuoteLastLines(files, job, &triage);
  Advise(rules, files, &triage);
  return triage;
}

}  // namespace ncclwatch::analyzer
