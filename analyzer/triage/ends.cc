#include "analyzer/triage/ends.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <set>
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
// "Exited with exit code 7", "Killed", as Slurm says it.
std::optional<int> StatusByWords(std::string_view how) {
  constexpr std::array<std::pair<std::string_view, int>, 5> kSignals = {{{"Killed", SIGKILL},
                                                                         {"Terminated", SIGTERM},
                                                                         {"Aborted", SIGABRT},
                                                                         {"Segmentation", SIGSEGV},
                                                                         {"Bus error", SIGBUS}}};
  for (const auto& [word, signal] : kSignals)
    if (how.substr(0, word.size()) == word) return -signal;
  int code = 0;
  const std::size_t space = how.rfind(' ');
  if (space == std::string_view::npos || !absl::SimpleAtoi(std::string(how.substr(space + 1)), &code))
    return std::nullopt;
  return code;
}

std::optional<int> StatusOf(const Match& match) {
  if (const auto status = StatusByWords(FieldOf(match, "how"))) return status;
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
  if (status && (*status == -SIGKILL || *status == kShellSignal + SIGKILL)) return EndKind::kKilled;
  if (status && *status < 0) return EndKind::kSignal;
  for (const auto& [how, name] : kHows)
    if (name == rule.end) return how == EndKind::kSignal && status == SIGKILL ? EndKind::kKilled : how;
  return EndKind::kException;
}

RankEnd EndOf(const Rule& rule, const Match& match) {
  RankEnd ended{match.rank, EndKind::kException, StatusOf(match), match.at, match.file, match.line, false};
  ended.how = match.exception ? EndKind::kException : HowOf(rule, ended.status);
  const int signal = ended.status ? (*ended.status < 0 ? -*ended.status : *ended.status) : 0;
  const bool of_launcher = match.exception && rule.role == Role::kConfirmation;
  ended.consequence = rule.role == Role::kEcho || of_launcher || (ended.how == EndKind::kSignal && signal == SIGTERM);
  if (ended.how == EndKind::kException) ended.status.reset();
  return ended;
}

bool EndedEarlier(const RankEnd& a, const RankEnd& b) {
  if (a.file == b.file && a.line != b.line) return a.line < b.line;
  if (a.at && b.at) return *a.at < *b.at;
  return a.at && !b.at;
}

// The rank's own words say how it ended; the launcher's table has the status.
void Merge(const RankEnd& other, RankEnd* ended) {
  if (!ended->status) ended->status = other.status;
  if (ended->how != EndKind::kException && other.how == EndKind::kException) {
    const auto [status, at] = std::pair(ended->status, ended->at);
    *ended = other;
    ended->status = status;
    if (!ended->at) ended->at = at;
  }
  if (!ended->at) ended->at = other.at;
}

}  // namespace

std::string_view Name(EndKind how) {
  for (const auto& [value, name] : kHows)
    if (value == how) return name;
  return "";
}

std::vector<RankEnd> EndsOf(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, const Course& course,
                            const OtherJobs& others) {
  std::map<int, RankEnd> by_rank;
  std::vector<RankEnd> ends;
  for (const ScannedFile& file : files) {
    for (const Match& match : file.matches) {
      const Rule& rule = rules[match.rule];
      const bool success = rule.role == Role::kSuccess;
      if (!SpeaksOfEnd(rule, match) || others.Has(match) || (!success && course.WentOn(file, match))) continue;
      RankEnd ended = EndOf(rule, match);
      std::set<int> ranks = RanksIn(FieldOf(match, "ranks"));
      if (match.rank >= 0) ranks.insert(match.rank);
      if (ranks.empty()) ends.push_back(ended);
      for (const int rank : ranks) {
        ended.rank = rank;
        const auto [row, fresh] = by_rank.emplace(rank, ended);
        if (!fresh) Merge(ended, &row->second);
      }
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
    if (!first || (first->rank < 0 && ended.rank >= 0) || (ended.rank >= 0 && EndedEarlier(ended, *first)))
      first = &ended;
  }
  return first;
}

}  // namespace ncclwatch::analyzer
