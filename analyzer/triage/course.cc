#include "analyzer/triage/course.h"

#include <absl/strings/numbers.h>
#include <re2/re2.h>

#include <algorithm>
#include <string>
#include <utility>

#include "analyzer/triage/lines.h"

namespace ncclwatch::analyzer {
namespace {

// Who wrote so much for so long afterwards did not fail of it.
constexpr std::uint64_t kWentOnLines = 200;
constexpr absl::Duration kWentOnFor = absl::Minutes(1);
// Ranks that wait for one that has ended may still write of the step before.
constexpr absl::Duration kUnderWay = absl::Seconds(90);

using Kind = TailLine::Kind;

std::uint64_t CountBehind(const Stream& stream, std::uint64_t line, Kind kind) {
  return static_cast<std::uint64_t>(std::count_if(stream.tail.begin(), stream.tail.end(), [&](const TailLine& row) {
    return row.line > line && row.kind == kind;
  }));
}

// "step 500/500", "100%|": nothing is left to do.
bool IsFinal(const std::string& text) {
  static const RE2 pattern(R"((\d+) ?(?:/|of) *(\d+))");
  re2::StringPiece rest(text);
  for (std::int64_t done = 0, all = 0; RE2::FindAndConsume(&rest, pattern, &done, &all);)
    if (all > 1 && done >= all) return true;
  return text.find("100%") != std::string::npos;
}

// What a program says when its work is over, well or not.
bool Concludes(const std::string& text) {
  static const RE2 pattern(
      R"((?i)\b(?:sav(?:ed|ing)|finish\w*|done|complet\w*|exit\w*|shut\w*|stop\w*|end(?:ed|ing)?|destroy\w*|clean\w*|summary|total|best|final\w*|terminat\w*|abort\w*|upload\w*|success\w*)\b)");
  return RE2::PartialMatch(text, pattern);
}

bool HasMeaning(const TailLine& line) { return line.kind != Kind::kOther && LevelOf(line.text) != LogLevel::kWarning; }

// Its last words say that the program has ended by itself.
bool EndsByItself(const Stream& stream) {
  static const RE2 pattern(
      R"((?i)\b(?:exit(?:ing|ed|s)|shut\w*|destroy\w*|terminat\w*|abort\w*)\b|\b(?:train\w*|job|run|fit|all|program)\b[^\n]{0,24}\b(?:done|finish\w*|complet\w*|over|ended)\b)");
  const auto last = std::find_if(stream.tail.rbegin(), stream.tail.rend(), HasMeaning);
  return last != stream.tail.rend() && last->kind == Kind::kOrdinary && RE2::PartialMatch(last->text, pattern);
}

// It writes of progress to the end, but for a few lines that conclude nothing.
bool StopsAtWork(const Stream& stream) {
  constexpr int kMost = 3;
  int others = 0;
  for (auto line = stream.tail.rbegin(); line != stream.tail.rend(); ++line) {
    if (line->kind == Kind::kProgress) return !IsFinal(line->text);
    if (HasMeaning(*line) && (++others > kMost || Concludes(line->text))) return false;
  }
  return false;
}

bool FellSilent(const std::vector<ScannedFile>& files) {
  constexpr std::uint64_t kAtWork = 5;  // lines of progress of a rank; fewer may be anything
  bool worked = false;
  for (const ScannedFile& file : files) {
    for (const Stream& stream : file.streams) {
      if (!file.kernel && EndsByItself(stream)) return false;
      if (file.kernel || CountBehind(stream, 0, Kind::kProgress) < kAtWork) continue;
      if (!StopsAtWork(stream)) return false;
      worked = true;
    }
  }
  return worked;
}

}  // namespace

bool SpeaksOfEnd(const Rule& rule, const Match& match) { return match.exception || !rule.end.empty(); }

Course::Course(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files) : rules_(rules) {
  for (const ScannedFile& file : files) NoteSteps(file);
  for (const ScannedFile& file : files) NoteMatches(file);
  for (const ScannedFile& file : files)
    for (const Match& match : file.matches)
      if (DeniesSuccess(file, match)) succeeded_ = false;
  fell_silent_ = !succeeded_ && FellSilent(files);
}

void Course::NoteSteps(const ScannedFile& file) {
  Track& track = tracks_[&file];
  for (const Stream& stream : file.streams) {
    std::uint64_t last = 0, before = 0;
    for (const TailLine& line : stream.tail)
      if (line.kind == Kind::kProgress) before = std::exchange(last, line.line);
    track.steps.push_back(last);
    track.two_steps = std::max(track.two_steps, before);
    last_progress_ = std::max(last_progress_, stream.progress_at);
  }
  track.ends.resize(file.streams.size());
}

void Course::NoteMatches(const ScannedFile& file) {
  Track& track = tracks_[&file];
  for (const Match& match : file.matches) {
    const Rule& rule = rules_[match.rule];
    const bool ends = SpeaksOfEnd(rule, match) || (rule.role == Role::kEcho && !rule.weak);
    if (ends && !match.chained) track.ends[match.stream] = std::max(track.ends[match.stream], match.line);
    if (rule.role != Role::kSuccess || Worked(file, match)) continue;
    std::uint64_t& success = rule.end == "normal" ? track.success : track.success_of[match.rank];
    success = std::max(success, match.line);
    succeeded_ = succeeded_ || rule.end == "normal";
  }
}

// It says that something ended badly. What stands in a file that says that all is done is about cleaning up, but for an
// exception behind.
bool Course::DeniesSuccess(const ScannedFile& file, const Match& match) const {
  const Rule& rule = rules_[match.rule];
  if (rule.role == Role::kSuccess || !SpeaksOfEnd(rule, match) || !IsLast(file, match)) return false;
  const std::uint64_t success = Success(file, -1);
  return success == 0 || (match.exception && rule.role == Role::kCause && match.line > success);
}

// The line with which the job (in this file), or this rank, said that all is done; 0: none.
std::uint64_t Course::Success(const ScannedFile& file, int rank) const {
  const Track& track = TrackOf(file);
  const auto own = track.success_of.find(rank);
  return std::max(track.success, own == track.success_of.end() ? 0 : own->second);
}

// Work follows: two steps of whoever they are, or one of its own.
bool Course::Worked(const ScannedFile& file, const Match& match) const {
  const Track& track = TrackOf(file);
  if (file.streams[match.stream].is_process() && track.steps[match.stream] > match.line) return true;
  if (track.two_steps > match.line) return true;
  return match.own_time && last_progress_ && *last_progress_ > *match.at + kUnderWay;
}

bool Course::WentOn(const ScannedFile& file, const Match& match) const {
  const Rule& rule = rules_[match.rule];
  if (file.kernel) return false;
  const std::uint64_t success = Success(file, match.rank);
  if (success > match.line) return true;
  // What a rank says while it cleans up after its work.
  if (success > 0 && (!match.exception || rule.role == Role::kEcho)) return true;
  if (Worked(file, match)) return true;
  if (match.caught || (!match.exception && rule.role == Role::kCause && SaysItGoesOn(match.text))) return true;
  // Numbers that go bad, and hardware, do not stop the rank that writes the line at once.
  if (!match.exception && (rule.category == "numerics" || rule.category == "hardware")) return false;
  const Stream& stream = file.streams[match.stream];
  if (match.exception && stream.is_process()) {
    const std::uint64_t ordinary = CountBehind(stream, match.line, Kind::kOrdinary);
    if (ordinary >= 2 || (ordinary == 1 && TrackOf(file).ends[match.stream] > match.line)) return true;
  }
  // A time from a line above says little in a file of many.
  if (!match.at || !stream.last_at || !(match.own_time || stream.is_process())) return false;
  return stream.last_line > match.line + kWentOnLines && *stream.last_at - *match.at > kWentOnFor;
}

bool Course::IsLast(const ScannedFile& file, const Match& match) const {
  constexpr std::uint64_t kLastLines = 60;
  const Stream& stream = file.streams[match.stream];
  if (file.kernel || WentOn(file, match) || stream.tail.empty()) return false;
  const auto behind = std::count_if(stream.tail.begin(), stream.tail.end(),
                                    [&](const TailLine& line) { return line.line > match.line; });
  return stream.tail.front().line <= match.line + 1 && static_cast<std::uint64_t>(behind) <= kLastLines;
}

}  // namespace ncclwatch::analyzer
