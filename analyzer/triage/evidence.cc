#include "analyzer/triage/evidence.h"

#include <re2/re2.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "analyzer/triage/whose.h"

namespace ncclwatch::analyzer {
namespace {

// What the kernel says may be about another job: it counts this long before and after an end.
constexpr absl::Duration kKernelBefore = absl::Minutes(10), kKernelAfter = absl::Minutes(2);
// Links and mounts come and go: they matter only if they do so just before an end.
constexpr absl::Duration kLinkBefore = absl::Minutes(2);

// Bad numbers stand in lines of progress. Of an excerpt each line was chosen.
bool OnlyAWarning(const Rule& rule, const Match& match, bool excerpt) {
  if (rule.category == "terminated" || rule.category == "hardware" || match.exception) return false;
  if (rule.category == "numerics") return match.level == LogLevel::kWarning && !excerpt;
  return match.level == LogLevel::kInfo || match.level == LogLevel::kWarning;
}

// Last words that name no exception: healthy programs have such lines too.
bool IsUnnamed(const Rule& rule, const Match& match) { return rule.traceback && !match.exception; }

// "... Timeout(ms)=600000": when the wait began that the line reports.
std::optional<absl::Time> WaitedSince(const Match& match) {
  static const RE2 pattern(R"(Timeout\(ms\)=(\d+))");
  std::int64_t limit = 0;
  if (!match.at || !RE2::PartialMatch(match.text, pattern, &limit)) return std::nullopt;
  return *match.at - absl::Milliseconds(limit);
}

bool IsLinkOrMount(const Rule& rule) { return rule.category == "network" || rule.category == "filesystem"; }

bool IsStatement(const Rule& rule) { return rule.generic && !rule.end.empty() && rule.category == "terminated"; }

}  // namespace

Evidence::Evidence(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files,
                   std::set<std::string> harmless)
    : rules_(rules),
      files_(files),
      course_(rules, files),
      others_(files),
      ends_(EndsOf(rules, files, course_, others_)),
      harmless_(std::move(harmless)) {
  for (const ScannedFile& file : files) {
    only_kernel_ = only_kernel_ && file.kernel;
    for (const auto& [pid, rank] : file.ranks_of_pids) pids_.insert(pid);
    for (const Match& match : file.matches) {
      const Rule& rule = rules[match.rule];
      const bool went_on = course_.WentOn(file, match);
      // What a program says of its own failure may stand above the exception that explains it.
      if (rule.role == Role::kEcho && !rule.weak && !went_on && rule.category != "python") {
        if (rule.category != "terminated") lost_.insert(match.rank);
        echoes_.emplace(std::tuple(&file, match.stream, match.rank), match.line);
        if (const auto since = WaitedSince(match)) hung_since_ = std::min(hung_since_.value_or(*since), *since);
      }
      if (went_on && rule.role != Role::kConfirmation) harmless_.insert(TemplateOf(match.text));
      if (!file.kernel && match.pid >= 0) pids_.insert(match.pid);
    }
  }
  // The exit, or abort, of a rank that says it waited in vain, or lost another one, follows from that.
  lost_.erase(-1);
  for (RankEnd& ended : ends_) {
    const bool follows = ended.how == EndKind::kExit || ended.how == EndKind::kSignal;
    if (follows && lost_.count(ended.rank)) ended.consequence = true;
    if (ended.at && (!first_end_ || *ended.at < *first_end_)) first_end_ = ended.at;
  }
  constexpr std::uint64_t kExcerpt = 30;  // lines
  std::uint64_t lines = 0;
  for (const ScannedFile& file : files) {
    for (const Stream& stream : file.streams) {
      lines += stream.lines;
      if (!file.kernel) last_line_ = std::max(last_line_, stream.last_at);
    }
  }
  excerpt_ = lines < kExcerpt;
  if (!first_end_) first_end_ = last_line_;
  // Only now is it known which lines mean nothing.
  for (const ScannedFile& file : files)
    for (const Match& match : file.matches) failed_ = failed_ || ShowsFailure(file, match);
}

bool Evidence::Counts(const ScannedFile& file, const Match& match) const {
  const Rule& rule = rules_[match.rule];
  if (rule.role == Role::kSuccess || course_.WentOn(file, match) || others_.Has(match)) return false;
  if (rule.role != Role::kCause || only_kernel_) return true;
  if (file.kernel) return IsTied(match) || (rule.category == "hardware" && !first_end_ && !fell_silent());
  if (fell_silent() || (match.chained && rule.traceback)) return false;
  const bool last = course_.IsLast(file, match);
  if (IsUnnamed(rule, match) && !last) return false;
  if (harmless_.count(TemplateOf(match.text)) && !(match.exception && last)) return false;
  return !OnlyAWarning(rule, match, excerpt_);
}

bool Evidence::Follows(const ScannedFile& file, const Match& match) const {
  const Rule& rule = rules_[match.rule];
  if (IsStatement(rule) && lost_.count(match.rank)) return true;
  // srun cancels a step of which a task has failed.
  if (FieldOf(match, "what") == "STEP" && first() && first()->how != EndKind::kCancelled) return true;
  if (!rule.peer && !IsStatement(rule) && !(rule.generic && match.exception)) return false;
  const auto echo = echoes_.find({&file, match.stream, match.rank});
  return echo != echoes_.end() && echo->second < match.line;
}

Weight Evidence::WeightOf(const ScannedFile& file, const Match& match) const {
  const Rule& rule = rules_[match.rule];
  if (file.kernel && !only_kernel_ && !IsTied(match)) return Weight::kElsewhere;
  if (rule.peer || (file.kernel && match.pid < 0 && IsLinkOrMount(rule))) return Weight::kPeer;
  return IsStatement(rule) ? Weight::kStatement : Weight::kOwn;
}

bool Evidence::NearEnd(const TriageFinding& cause) const {
  const Match& match = cause.first;
  if (match.exception || !cause.rule->end.empty() || cause.rule->category == "numerics") return true;
  for (const ScannedFile& file : files_)
    if (file.file.path == match.file && (file.kernel ? IsTied(match) : course_.IsLast(file, match))) return true;
  constexpr std::uint64_t kLinesBefore = 60;
  return std::any_of(ends_.begin(), ends_.end(), [&](const RankEnd& ended) {
    return ended.file == match.file && ended.line > match.line && ended.line <= match.line + kLinesBefore;
  });
}

// A line that a healthy job does not write at its end.
bool Evidence::ShowsFailure(const ScannedFile& file, const Match& match) const {
  const Rule& rule = rules_[match.rule];
  if (rule.role == Role::kSuccess || rule.weak || file.kernel || IsUnnamed(rule, match)) return false;
  if (others_.Has(match) || course_.WentOn(file, match)) return false;
  if (rule.role == Role::kConfirmation || match.exception || !rule.end.empty()) return true;
  const bool grave = rule.role == Role::kCause && rule.confidence == Confidence::kCertain;
  return (grave || course_.IsLast(file, match)) && !OnlyAWarning(rule, match, excerpt_) &&
         !(rule.role == Role::kCause && harmless_.count(TemplateOf(match.text)));
}

// Of the kernel: about a process of this job, or about a machine that failed, or killed, when the job ended.
bool Evidence::IsTied(const Match& match) const {
  if (only_kernel_ || IsOfRank(match)) return true;
  const Rule& rule = rules_[match.rule];
  const bool others = match.pid >= 0 && !pids_.empty();
  if (IsLinkOrMount(rule) && !others && match.at && IsNearAnEnd(*match.at, kLinkBefore)) return true;
  if (rule.category != "hardware" && rule.category != "terminated") return KilledNear(match);
  return !others && match.at && IsNearAnEnd(*match.at, kKernelBefore);
}

// Or since the job made its last step, or began to wait: ranks that hang end much later.
bool Evidence::IsNearAnEnd(absl::Time time, absl::Duration before) const {
  constexpr absl::Duration kBeforeHang = absl::Minutes(1);
  if (!first_end_) return false;
  absl::Time from = *first_end_ - before;
  for (const auto& idle : {course_.last_progress(), hung_since_})
    if (idle) from = std::min(from, *idle - kBeforeHang);
  return time >= from && time <= last_line_.value_or(*first_end_) + kKernelAfter;
}

// A kill of a process that nobody knows matters only if a rank was killed at that time.
bool Evidence::KilledNear(const Match& match) const {
  if (rules_[match.rule].category == "cuda") return false;
  return std::any_of(ends_.begin(), ends_.end(), [&](const RankEnd& ended) {
    // A bus error: mapped files that are gone.
    const bool bus_error = rules_[match.rule].category == "filesystem" && ended.how == EndKind::kSignal &&
                           ended.status && std::abs(*ended.status) == SIGBUS;
    if (ended.how != EndKind::kKilled && !bus_error) return false;
    if (!match.at) return false;  // only its pid could tie it
    return !ended.at || (*match.at >= *ended.at - kKernelBefore && *match.at <= *ended.at + kKernelAfter);
  });
}

}  // namespace ncclwatch::analyzer
