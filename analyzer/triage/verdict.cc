#include "analyzer/triage/verdict.h"

#include <re2/re2.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "analyzer/triage/culprit.h"
#include "analyzer/triage/evidence.h"
#include "analyzer/triage/whose.h"

namespace ncclwatch::analyzer {
namespace {

// A cause that says more beats an exception or a signal that came up to this much earlier: clocks of kernel and
// program differ, and an exception is often printed before its reason is.
constexpr absl::Duration kSameMoment = absl::Seconds(60);
// Old lines of a kernel's log are about other jobs.
constexpr absl::Duration kBeforeJob = absl::Minutes(5), kAfterJob = absl::Minutes(10);

struct Window {
  absl::Time begin = absl::InfiniteFuture(), end = absl::InfinitePast();
  bool Contains(absl::Time time) const { return begin > end || (time >= begin && time <= end); }
};

Window WindowOfJob(const std::vector<ScannedFile>& files, std::optional<absl::Time> hung_since) {
  Window window;
  if (hung_since) window.begin = *hung_since - kBeforeJob;
  for (const ScannedFile& file : files) {
    for (const Stream& stream : file.streams) {
      if (file.kernel || !stream.last_at) continue;
      window.begin = std::min(window.begin, stream.first_at.value_or(*stream.last_at) - kBeforeJob);
      window.end = std::max(window.end, *stream.last_at + kAfterJob);
    }
  }
  return window;
}

using Key = std::tuple<const Rule*, std::string, Weight>;
using Groups = std::map<Key, std::vector<const Match*>>;

// Of the lines that are about this job: those of one rule together. `follows`: causes that follow from others.
Groups Gather(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, const Evidence& evidence,
              Groups* follows) {
  const Window window = WindowOfJob(files, evidence.hung_since());
  Groups groups;
  for (const ScannedFile& file : files) {
    for (const Match& match : file.matches) {
      if (!evidence.Counts(file, match)) continue;
      if (file.kernel && match.at && !window.Contains(*match.at) && !evidence.IsOfRank(match)) continue;
      const Rule& rule = rules[match.rule];
      const bool cause = rule.role == Role::kCause;
      const Weight weight = cause ? evidence.WeightOf(file, match) : Weight::kOwn;
      Groups& where = cause && evidence.Follows(file, match) ? *follows : groups;
      where[{&rule, std::string(FieldOf(match, "exception")), weight}].push_back(&match);
    }
  }
  return groups;
}

struct Weighed {
  TriageFinding cause;
  Weight weight;
  std::optional<absl::Time> at;  // of its line; of the rank's end, as others saw it, if an exception's has none
};

bool IsFirst(const TriageFinding& a, const TriageFinding& b) {
  if (a.first.file == b.first.file) return a.first.line < b.first.line;
  return IsEarlier(a.first.at, b.first.at);
}

// Whether both can be about one process.
bool MaySameProcess(const TriageFinding& a, const TriageFinding& b) {
  if (a.ranks.empty() || b.ranks.empty()) return true;
  return std::find_first_of(a.ranks.begin(), a.ranks.end(), b.ranks.begin(), b.ranks.end()) != a.ranks.end();
}

bool IsFirstOf(const Weighed& a, const Weighed& b) {
  return a.cause.first.file == b.cause.first.file ? a.cause.first.line < b.cause.first.line : IsEarlier(a.at, b.at);
}

std::optional<absl::Time> TimeOf(const TriageFinding& cause, const std::vector<RankEnd>& ends) {
  if (cause.first.at || !cause.first.exception || cause.first.rank < 0) return cause.first.at;
  const auto end =
      std::find_if(ends.begin(), ends.end(), [&](const RankEnd& ended) { return ended.rank == cause.first.rank; });
  return end == ends.end() ? std::nullopt : end->at;
}

// By weight; then what says more before what says less of the same moment; then by time.
std::vector<TriageFinding> Sorted(std::vector<Weighed> causes) {
  std::stable_sort(causes.begin(), causes.end(), IsFirstOf);
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Weighed& a, const Weighed& b) { return a.weight < b.weight; });
  std::vector<TriageFinding> sorted;
  while (!causes.empty()) {
    auto next = causes.begin();
    const auto says_more = [&](const Weighed& other) {
      const auto &at = other.at, &from = next->at;
      const bool close = !at || !from || *at - *from <= kSameMoment;
      return !other.cause.rule->generic && other.weight == next->weight && close &&
             MaySameProcess(other.cause, next->cause);
    };
    if (next->cause.rule->generic) {
      const auto better = std::find_if(causes.begin(), causes.end(), says_more);
      if (better != causes.end()) next = better;
    }
    sorted.push_back(std::move(next->cause));
    causes.erase(next);
  }
  return sorted;
}

std::vector<Silent> SilentRanks(const std::vector<ScannedFile>& files) {
  constexpr absl::Duration kLeast = absl::Seconds(30);
  constexpr double kGaps = 20;  // of its own lines
  struct Last {
    const Stream* stream;
    const std::string* file;
  };
  std::map<int, Last> last;
  for (const ScannedFile& file : files) {
    for (const Stream& stream : file.streams) {
      if (stream.rank < 0 || file.kernel || !stream.last_at || !stream.first_at) continue;
      auto [row, fresh] = last.emplace(stream.rank, Last{&stream, &file.file.path});
      if (!fresh && *stream.last_at > *row->second.stream->last_at) row->second = {&stream, &file.file.path};
    }
  }
  std::vector<absl::Time> ends;
  for (const auto& [rank, of] : last) ends.push_back(*of.stream->last_at);
  std::vector<Silent> silent;
  if (ends.size() < 3) return silent;
  std::nth_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 2), ends.end());
  const absl::Time middle = ends[ends.size() / 2];
  for (const auto& [rank, of] : last) {
    const double lines = static_cast<double>(std::max<std::uint64_t>(of.stream->lines, 1));
    const absl::Duration gap = std::max(kLeast, kGaps * ((*of.stream->last_at - *of.stream->first_at) / lines));
    if (middle - *of.stream->last_at > gap)
      silent.push_back({rank, *of.stream->last_at, *of.file, of.stream->last_line});
  }
  // Where many stop early, the others are those that are odd.
  if (silent.size() * 2 > last.size()) silent.clear();
  return silent;
}

// Causes that stand at an end come before lines that only look bad. If a rank's end was seen, the latter explain
// nothing.
void PreferEnds(const Evidence& evidence, std::vector<TriageFinding>* causes) {
  const auto rest = std::stable_partition(causes->begin(), causes->end(),
                                          [&](const TriageFinding& cause) { return evidence.NearEnd(cause); });
  const RankEnd* const first = evidence.first();
  const auto is_vague = [](const TriageFinding& cause) { return cause.confidence != Confidence::kCertain; };
  if (first && first->rank >= 0 && rest == causes->begin())
    causes->erase(std::remove_if(causes->begin(), causes->end(), is_vague), causes->end());
}

// Certain only if the line stands at an end.
void Weigh(const Evidence& evidence, std::vector<TriageFinding>* causes) {
  for (TriageFinding& cause : *causes)
    if (cause.confidence == Confidence::kCertain && !evidence.NearEnd(cause)) cause.confidence = Confidence::kLikely;
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
void QuoteLastLines(const std::vector<ScannedFile>& files, const Evidence& evidence, Triage* triage) {
  constexpr std::size_t kMost = 12;
  const RankEnd* const first = evidence.first();
  if (!first) return;
  triage->unexplained = Unexplained{*first, {}};
  std::vector<std::string>& lines = triage->unexplained->lines;
  for (const ScannedFile& file : files)
    for (const Stream& stream : file.streams)
      for (const TailLine& line : stream.tail)
        if (!file.kernel &&
            (first->rank >= 0 ? stream.rank == first->rank : file.file.path == first->file && line.line <= first->line))
          lines.push_back(line.text);
  if (lines.size() > kMost) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMost));
}

void AddSilent(Triage* triage) {
  for (const Silent& silent : triage->silent) {
    const bool known = std::any_of(triage->ended.begin(), triage->ended.end(),
                                   [&](const RankEnd& ended) { return ended.rank == silent.rank; });
    if (!known)
      triage->ended.push_back(
          {silent.rank, EndKind::kSilent, std::nullopt, silent.at, silent.file, silent.line, false});
  }
  std::stable_sort(triage->ended.begin(), triage->ended.end(),
                   [](const RankEnd& a, const RankEnd& b) { return IsEarlier(a.at, b.at); });
}

// What only says that something ended, but not a kill or a crash of a rank that lost nobody.
bool IsWeakerThanWaiting(const Evidence& evidence, const TriageFinding& cause) {
  if (cause.ranks.empty() || cause.rule->end == "exit") return true;
  return std::any_of(cause.ranks.begin(), cause.ranks.end(), [&](int rank) { return evidence.lost().count(rank) > 0; });
}

// A rank ended, nobody knows why, and then others waited for it.
bool EndedBeforeWaits(const Evidence& evidence, const std::vector<TriageFinding>& echoes) {
  const RankEnd* const first = evidence.first();
  if (!first || first->rank < 0) return false;
  return std::none_of(echoes.begin(), echoes.end(), [&](const TriageFinding& echo) {
    const bool earlier =
        echo.first.file == first->file ? echo.first.line < first->line : IsEarlier(echo.first.at, first->at);
    return echo.rule->category == "timeout" && earlier;
  });
}

std::vector<int> RanksOf(const std::vector<Silent>& silent) {
  std::vector<int> ranks;
  for (const Silent& each : silent) ranks.push_back(each.rank);
  return ranks;
}

// Nothing explains an end: the first that speaks of the failure at all.
void TakeEcho(const Circumstances& known, Triage* triage) {
  const bool weaker = std::all_of(triage->causes.begin(), triage->causes.end(), [&](const TriageFinding& cause) {
    return IsWeakerThanWaiting(known.evidence, cause);
  });
  if (!weaker) return;
  if (auto odd = OddCallFinding(known)) {
    triage->causes.insert(triage->causes.begin(), *std::move(odd));
    return;
  }
  // That they waited too long, or were told to end, is a fact. That they lost others explains nothing.
  for (const std::string_view category : {"timeout", "rendezvous", "terminated"}) {
    const auto first = std::find_if(triage->echoes.begin(), triage->echoes.end(), [&](const TriageFinding& echo) {
      const bool fact = category != "terminated" || (echo.rule->end == "cancelled" && triage->causes.empty());
      return echo.rule->role == Role::kEcho && !echo.rule->weak && echo.rule->category == category && fact;
    });
    if (first == triage->echoes.end()) continue;
    TriageFinding told = *first;
    told.confidence = Confidence::kLikely;
    if (category == "timeout") NameAbsent(known, RanksOf(triage->silent), &told);
    triage->echoes.erase(first);
    triage->causes.insert(triage->causes.begin(), std::move(told));
    return;
  }
}

// Sorts what counts into the three lists. Returns the weight of the first cause.
Weight Sort(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, const Evidence& evidence,
            Triage* triage) {
  Groups follows;
  std::vector<Weighed> causes;
  Weight least = Weight::kElsewhere;
  for (auto& [key, matches] : Gather(rules, files, evidence, &follows)) {
    const auto& [rule, exception, weight] = key;
    TriageFinding told = Tell(*rule, std::move(matches));
    if (rule->role != Role::kCause) {
      (rule->role == Role::kEcho ? triage->echoes : triage->confirmations).push_back(std::move(told));
      continue;
    }
    if (weight == Weight::kElsewhere) told.confidence = Confidence::kSuspected;
    // A link or mount of the machine, which only the time ties to an end.
    if (weight == Weight::kPeer && !rule->peer) told.confidence = std::min(told.confidence, Confidence::kLikely);
    least = std::min(least, weight);
    const auto at = TimeOf(told, evidence.ends());
    causes.push_back({std::move(told), weight, at});
  }
  for (auto& [key, matches] : follows) triage->echoes.push_back(Tell(*std::get<0>(key), std::move(matches)));
  triage->causes = Sorted(std::move(causes));
  for (std::vector<TriageFinding>* list : {&triage->echoes, &triage->confirmations})
    std::stable_sort(list->begin(), list->end(), IsFirst);
  return least;
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
  const Evidence evidence(rules, files, baseline.templates);
  triage.ended = evidence.ends();
  triage.succeeded = evidence.succeeded();
  triage.silent = SilentRanks(files);
  if (evidence.healthy()) return triage;
  AddSilent(&triage);
  const Weight weight = Sort(rules, files, evidence, &triage);
  PreferEnds(evidence, &triage.causes);
  const Circumstances known{rules, files, evidence, triage.echoes};
  if (!triage.causes.empty()) {
    TriageFinding& first = triage.causes.front();
    if (first.ranks.empty()) NameRank(known, &first);
    // All ranks compare themselves with others: the odd one is to be found.
    if (first.rule->id == "nccl.another_collective")
      if (auto odd = OddCallFinding(known)) first = *std::move(odd);
  }
  Weigh(evidence, &triage.causes);
  if (triage.causes.empty() ? !EndedBeforeWaits(evidence, triage.echoes) : weight > Weight::kPeer)
    TakeEcho(known, &triage);
  triage.unknown = triage.causes.empty();
  triage.fell_silent = triage.unknown && evidence.fell_silent();
  if (triage.unknown) QuoteLastLines(files, evidence, &triage);
  Advise(rules, files, &triage);
  return triage;
}

}  // namespace ncclwatch::analyzer
