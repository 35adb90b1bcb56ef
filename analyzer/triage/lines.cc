#include "analyzer/triage/lines.h"

#include <absl/strings/numbers.h>
#include <re2/re2.h>

#include <algorithm>

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kLookAt = 400;  // letters from the line's beginning

bool IsProgress(const re2::StringPiece& text) {
  static const RE2 pattern(
      R"((?i)\b(?:step|iter|iteration|epoch|batch|global_step)\b['"]?[\s:=/#\[]{0,16}\d|\bloss\b['"]?\s*[:=|]?\s*\d|\d%\||\d ?(?:it|samples|tokens|tok|images)/s|throughput: )");
  static const RE2 trouble(
      R"((?i)\berror\b|exception|traceback|fail|timeout|timed out|abort|killed|fatal|exiting|saving|saved|\bnan\b|signal|warn)");
  return RE2::PartialMatch(text, pattern) && !RE2::PartialMatch(text, trouble);
}

// Stacks, C++ and Python warnings, NCCL's own lines, what launchers and trackers write when a process is gone.
bool IsAftermath(const re2::StringPiece& text) {
  static const RE2 pattern(
      R"(^\s|^Traceback|^frame #|^#\d+ |^\*\*\* |^\[[\w.-]+:\d+\] |^[-=*]{4,}|^[WEF]\d{3,4} |^\[[WEF]\d{0,4}\b|NCCL (?:INFO|WARN)|^wandb: |\w+Warning: |warnings\.warn|^[\w.]+(?:Error|Exception)\b|^Exception |^During handling|^The above exception|resource_tracker|^CUDA kernel errors might|^For debugging consider|^Compile with|^Device-side assert|^Last error:|^nccl\w+Error: |^HINT|^srun|^slurmstepd|^mpirun|^prterun|core dumped|^\d+%\|)");
  return RE2::PartialMatch(text, pattern);
}

}  // namespace

std::string WithoutColors(std::string_view line) {
  std::string plain(line);
  static const RE2 sequence("\x1b\\[[0-9;?]*[A-Za-z]");
  if (plain.find('\x1b') != std::string::npos) RE2::GlobalReplace(&plain, sequence, "");
  return plain;
}

LogLevel LevelOf(std::string_view line) {
  constexpr std::size_t kWithin = 96;
  const re2::StringPiece text(line.data(), std::min(line.size(), kWithin));
  static const RE2 pattern(
      R"(NCCL (INFO|WARN)\b|\b(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|[Ww]arning:)|(?:^|\[)([DIWEF])(?:\d{3,4} \d\d:| [\w./]+\.cpp:)|^\[?([DIWEF])\])");
  std::string nccl, word, glog, letter;
  if (!RE2::PartialMatch(text, pattern, &nccl, &word, &glog, &letter)) return LogLevel::kNone;
  if (!nccl.empty()) return nccl == "INFO" ? LogLevel::kInfo : LogLevel::kError;  // WARN is all that NCCL has
  const char first = !word.empty() ? word.front() : !glog.empty() ? glog.front() : letter.front();
  return first == 'D' || first == 'I'   ? LogLevel::kInfo
         : first == 'W' || first == 'w' ? LogLevel::kWarning
                                        : LogLevel::kError;
}

TailLine::Kind KindOf(std::string_view line) {
  const re2::StringPiece text(line.data(), std::min(line.size(), kLookAt));
  if (IsProgress(text)) return TailLine::Kind::kProgress;
  return IsAftermath(text) ? TailLine::Kind::kOther : TailLine::Kind::kOrdinary;
}

bool SaysItGoesOn(std::string_view line) {
  static const RE2 pattern(
      R"((?i)\b(?:will|and|training|run) continu|\bcontinuing\b|\bcontinues\b|\bretrying\b|will retry|\btry again|\btrying (?:again|with|the next|another|\w* ?\d)|fall(?:s|ing)? ?back|\bignor(?:ed|ing)\b|\bskipp(?:ed|ing)\b|\bdisabl(?:ed|ing)\b|\boptional\b|\busing [^.]{0,60}\binstead\b|\brecovered\b|non-?fatal|not fatal|\bproceeding\b|\bcaught (?:while|and)\b)");
  return RE2::PartialMatch(re2::StringPiece(line.data(), std::min(line.size(), kLookAt)), pattern);
}

bool LivesWithout(std::string_view line) {
  static const RE2 pattern(
      R"((?i)\b(?:not available|unavailable|missing)\b[^\n]{0,40}[,;:]|, using\b|\bwithout\b|\bdefault(?:s|ing)? to\b|\bdegraded\b|\bis (?:now )?off\b)");
  static const RE2 gives_up(R"((?i)\b(?:abort|exit|stop|quit|terminat|fail|fatal|cannot|can't|giv(?:e|ing) up))");
  const re2::StringPiece text(line.data(), std::min(line.size(), kLookAt));
  if (SaysItGoesOn(line)) return true;
  return KindOf(line) == TailLine::Kind::kOrdinary && RE2::PartialMatch(text, pattern) &&
         !RE2::PartialMatch(text, gives_up);
}

int OwnRankIn(std::string_view line) {
  static const RE2 pattern(
      R"((?i)\b(?:global[_ ]?|world[_ ]?)?rank(?:[ =:]{1,2}|\s)(\d+)\)?(?: of \d+|[^\n]{0,24}(?:world[_ ]?size|env://|member))|initializ[^\n]{0,60}\brank[ =:]{1,2}(\d+)\b)");
  const re2::StringPiece text(line.data(), std::min(line.size(), kLookAt));
  std::string first, second;
  int rank = -1;
  if (!RE2::PartialMatch(text, pattern, &first, &second)) return -1;
  return absl::SimpleAtoi(first.empty() ? second : first, &rank) ? rank : -1;
}

}  // namespace ncclwatch::analyzer
