#include "analyzer/triage/ends.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analyzer/triage/whose.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::array<std::pair<EndKind, std::string_view>, 8> kHows = {{{EndKind::kException, "exception"},
                                                                        {EndKind::kSignal, "signal"},
                                                                        {EndKind::kExit, "exit"},
                                                                        {EndKind::kKilled, "killed"},
                                                                        {EndKind::kTimeLimit, "time_limit"},
                                                                        {EndKind::kCancelled, "cancelled"},
                                                                        {EndKind::kNormal, "normal"},
                                                                        {EndKind::kSilent, "silent"}}};
constexpr int kSigKill = 9, kSigTerm = 15, kSigAbort = 6;

// Who wrote so much for so long afterwards did not fail of it.
constexpr std::uint64_t kWentOnLines = 200;
constexpr absl::Duration kWentOnFor = absl::Minutes(1);

// Numbers that go bad do not stop the rank that writes the line at once.
bool IsNumbers(const Rule& rule) { return rule.category == "numerics"; }

std::optional<int> StatusOf(const Match& match) {
  for (const char* const name : {"exitcode", "code", "signal", "status"}) {
    const std::string text(FieldOf(match, name));
    int number = 0;
    const bool negative = !text.empty() && text.front() == '-';
    if (absl::SimpleAtoi(negative ? text.substr(1) : text, &number)) return negative ? -number : number;
  }
  return std::nullopt;
}

EndKind HowOf(const Rule& rule, std::optional<int> status) {
  constexpr int kShellSignal = 128;
  if (status && (*status == -kSigKill || *status == kShellSignal + kSigKill)) return EndKind::kKilled;
  if (status && *status < 0) return EndKind::kSignal;
  for (const auto& [how, name] : kHows)
    if (name == rule.end) return how == EndKind::kSignal && status == kSigKill ? EndKind::kKilled : how;
  return EndKind::kException;
}

// Whether `match` says how its rank ended.
bool SpeaksOfEnd(const Rule& rule, const Match& match) { return match.exception || !rule.end.empty(); }

RankEnd EndOf(const Rule& rule, const Match& match) {
  RankEnd ended{match.rank, EndKind::kException, StatusOf(match), match.at, match.file, match.line, false};
  ended.how = match.exception ? EndKind::kException : HowOf(rule, ended.status);
  const int signal = ended.status ? (*ended.status < 0 ? -*ended.status : *ended.status) : 0;
  const bool aborted = ended.how == EndKind::kSignal && (signal == kSigTerm || signal == kSigAbort);
  ended.consequence = rule.role == Role::kEcho || aborted;
  if (ended.how == EndKind::kException) ended.status.reset();
  return ended;
}

bool IsEarlier(const RankEnd& a, const RankEnd& b) {
  if (a.file == b.file && a.line != b.line) return a.line < b.line;
  if (a.at && b.at) return *a.at < *b.at;
  return a.at && !b.at;
}

// The rank's own words say how it ended; the launcher's table has the status.
void Merge(const RankEnd& other, RankEnd* ended) {
  if (!ended->status) ended->status = other.status;
  if (ended->how != EndKind::kException && other.how == EndKind::kException) {
    const auto status = ended->status;
    *ended = other;
    ended->status = status;
  }
}

}  // namespace

std::string_view Name(EndKind how) {
  for (const auto& [value, name] : kHows)
    if (value == how) return name;
  return "";
}

Course::Course(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files) : rules_(rules) {
  for (const ScannedFile& file : files)
    for (const Match& match : file.matches)
      succeeded_ = succeeded_ || (rules[match.rule].role == Role::kSuccess && rules[match.rule].end == "normal");
  for (const ScannedFile& file : files)
    for (const Match& match : file.matches)
      if (rules[match.rule].role != Role::kSuccess && SpeaksOfEnd(rules[match.rule], match) && IsLast(file, match) &&
          Success(file, -1) == 0)
        succeeded_ = false;
}

std::uint64_t Course::LastProgress(const ScannedFile& file, int rank) const {
  std::uint64_t last = 0, before = 0;
  const bool own = file.file.rank >= 0 || rank < 0;
  for (const TailLine& line : file.tail) {
    if (!line.progress || (!own && line.rank >= 0 && line.rank != rank)) continue;
    before = last;
    last = line.line;
  }
  const bool alone = file.file.rank >= 0 || file.file.is_local;
  // Of several ranks in one file one more line of another one may have been under way.
  return alone ? last : before;
}

// The line with which the job (in this file), or this rank, said that all is done; 0: none.
std::uint64_t Course::Success(const ScannedFile& file, int rank) const {
  std::uint64_t last = 0;
  for (const Match& match : file.matches) {
    const Rule& rule = rules_[match.rule];
    if (rule.role != Role::kSuccess) continue;
    if (rule.end == "normal" || match.rank == rank) last = match.line;
  }
  return last;
}

bool Course::WentOn(const ScannedFile& file, const Match& match) const {
  const Rule& rule = rules_[match.rule];
  if (file.kernel) return false;
  const std::uint64_t success = Success(file, match.rank);
  if (success > match.line) return true;
  // What a rank says while it cleans up after its work.
  if (success > 0 && (!match.exception || rule.role == Role::kEcho)) return true;
  if (LastProgress(file, match.rank) > match.line) return true;
  if (IsNumbers(rule) || rule.category == "hardware" || !match.at) return false;
  const auto last = file.last.find(file.last.count(match.rank) ? match.rank : -1);
  if (last == file.last.end()) return false;
  return last->second.line > match.line + kWentOnLines && last->second.at - *match.at > kWentOnFor;
}

bool Course::IsLast(const ScannedFile& file, const Match& match) const {
  constexpr std::uint64_t kLastLines = 60;
  if (file.kernel || WentOn(file, match)) return false;
  std::uint64_t behind = 0;
  for (const TailLine& line : file.tail)
    behind += line.line > match.line && (line.rank < 0 || match.rank < 0 || line.rank == match.rank);
  return !file.tail.empty() && file.tail.front().line <= match.line + 1 && behind <= kLastLines;
}

std::vector<RankEnd> EndsOf(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files,
                            const Course& course) {
  std::map<int, RankEnd> by_rank;
  std::vector<RankEnd> ends;
  for (const ScannedFile& file : files) {
    for (const Match& match : file.matches) {
      const Rule& rule = rules[match.rule];
      const bool success = rule.role == Role::kSuccess;
      if (!SpeaksOfEnd(rule, match) || (!success && course.WentOn(file, match))) continue;
      RankEnd ended = EndOf(rule, match);
      if (match.rank < 0) {
        ends.push_back(std::move(ended));
        continue;
      }
      const auto [row, fresh] = by_rank.emplace(match.rank, ended);
      if (!fresh) Merge(ended, &row->second);
    }
  }
  for (auto& [rank, ended] : by_rank) ends.push_back(std::move(ended));
  std::stable_sort(ends.begin(), ends.end(), [](const RankEnd& a, const RankEnd& b) {
    if (a.at && b.at) return *a.at < *b.at;
    return a.at && !b.at;
  });
  return ends;
}

const RankEnd* FirstEnd(const std::vector<RankEnd>& ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& ended : ends) {
    if (ended.consequence || ended.how == EndKind::kNormal || ended.how == EndKind::kSilent) continue;
    if (!first || (first->rank < 0 && ended.rank >= 0) || (ended.rank >= 0 && IsEarlier(ended, *first))) first = &ended;
  }
  return first;
}

}  // namespace ncclwatch::analyzer
