#include "analyzer/triage/scan.h"

#include <absl/strings/numbers.h>
#include <absl/time/time.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {
namespace {

// What the beginning of a log line says: which rank and host wrote it, and when.

struct LinePrefix {
  int rank = -1;        // of the job; -1: not said
  int local_rank = -1;  // on its host: torchrun's [default3]:
  std::string_view rest;
};

struct Stamp {
  absl::Time time;
  bool has_zone = false;  // else taken as UTC, as all others without one
};

constexpr std::size_t kStampWithin = 96;  // letters from the line's beginning
constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";

bool EatNumber(std::string_view* text, int* number) {
  std::size_t digits = 0;
  while (digits < text->size() && digits < 7 && std::isdigit(static_cast<unsigned char>((*text)[digits]))) ++digits;
  if (digits == 0 || !absl::SimpleAtoi(std::string(text->substr(0, digits)), number)) return false;
  text->remove_prefix(digits);
  return true;
}

bool Eat(std::string_view* text, std::string_view word) {
  if (text->substr(0, word.size()) != word) return false;
  text->remove_prefix(word.size());
  return true;
}

void EatSpace(std::string_view* text) {
  if (!text->empty() && text->front() == ' ') text->remove_prefix(1);
}

// "[WORD N]:" and "[WORDN]:"
bool EatBracket(std::string_view* text, std::string_view word, int* number) {
  std::string_view rest = *text;
  int read = 0;
  if (!Eat(&rest, "[") || !Eat(&rest, word)) return false;
  EatSpace(&rest);
  if (!EatNumber(&rest, &read) || !Eat(&rest, "]:")) return false;
  EatSpace(&rest);
  *number = read;
  *text = rest;
  return true;
}

// Open MPI's `--tag-output`: "[1,3]<stderr>:".
bool EatMpi(std::string_view* text, int* number) {
  std::string_view rest = *text;
  int job = 0, read = 0;
  if (!Eat(&rest, "[") || !EatNumber(&rest, &job) || !Eat(&rest, ",") || !EatNumber(&rest, &read) || !Eat(&rest, "]<"))
    return false;
  const std::size_t end = rest.find(">:");
  if (end == std::string_view::npos || end > 8) return false;
  rest.remove_prefix(end + 2);
  *number = read;
  *text = rest;
  return true;
}

bool EatNumbered(std::string_view* text, int* number) {
  std::string_view rest = text->substr(std::min(text->find_first_not_of(' '), text->size()));
  int read = 0;
  if (!EatNumber(&rest, &read) || !Eat(&rest, ": ")) return false;
  *number = read;
  *text = rest;
  return true;
}

int MonthOf(const re2::StringPiece& name) {
  const std::size_t found = kMonths.find(std::string_view(name.data(), name.size()));
  return found == std::string_view::npos || found % 3 != 0 ? 0 : static_cast<int>(found / 3) + 1;
}

absl::Duration Fraction(const std::string& digits) {
  double value = 0;
  return digits.empty() || !absl::SimpleAtod("0." + digits, &value) ? absl::ZeroDuration() : absl::Seconds(value);
}

absl::Time At(int year, int month, int day, int hour, int minute, int second) {
  return absl::FromCivil(absl::CivilSecond(year, month, day, hour, minute, second), absl::UTCTimeZone());
}

std::optional<Stamp> Iso(const re2::StringPiece& text) {
  static const RE2 pattern(
      R"((\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?)");
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::string fraction, zone;
  if (!RE2::PartialMatch(text, pattern, &year, &month, &day, &hour, &minute, &second, &fraction, &zone))
    return std::nullopt;
  Stamp stamp{At(year, month, day, hour, minute, second) + Fraction(fraction), !zone.empty()};
  int hours = 0, minutes = 0;
  if (zone.size() > 1 && absl::SimpleAtoi(zone.substr(1, 2), &hours) &&
      absl::SimpleAtoi(zone.substr(zone.size() - 2), &minutes))
    stamp.time -= (zone.front() == '-' ? -1 : 1) * (absl::Hours(hours) + absl::Minutes(minutes));
  return stamp;
}

std::optional<Stamp> Glog(const re2::StringPiece& text, int year) {
  // c10 writes the month of January to September with one digit.
  static const RE2 pattern(R"(\b[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9}))");
  int month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::string fraction;
  if (!RE2::PartialMatch(text, pattern, &month, &day, &hour, &minute, &second, &fraction)) return std::nullopt;
  return Stamp{At(year, month, day, hour, minute, second) + Fraction(fraction)};
}

std::optional<Stamp> Syslog(const re2::StringPiece& text, int year) {
  static const RE2 pattern(R"(\b([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.\d+)?(?: (\d{4})\b)?)");
  re2::StringPiece month;
  int day = 0, hour = 0, minute = 0, second = 0;
  std::string said;
  if (!RE2::PartialMatch(text, pattern, &month, &day, &hour, &minute, &second, &said)) return std::nullopt;
  if (!said.empty() && !absl::SimpleAtoi(said, &year)) return std::nullopt;
  const int number = MonthOf(month);
  if (number == 0) return std::nullopt;
  return Stamp{At(year, number, day, hour, minute, second)};
}

// vLLM's "ERROR 05-18 10:14:07".
std::optional<Stamp> MonthDay(const re2::StringPiece& text, int year) {
  static const RE2 pattern(R"(\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b)");
  int month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!RE2::PartialMatch(text, pattern, &month, &day, &hour, &minute, &second)) return std::nullopt;
  return Stamp{At(year, month, day, hour, minute, second)};
}

// "[rank3]: ", "[default3]:", "[1,3]<stderr>:", and with `numbered` "3: " of `srun -l`. They may follow one another.
LinePrefix ParsePrefix(std::string_view line, bool numbered) {
  LinePrefix prefix;
  for (bool more = true; more;) {
    more = EatBracket(&line, "rank", &prefix.rank) || EatBracket(&line, "default", &prefix.local_rank) ||
           EatMpi(&line, &prefix.rank) || (numbered && prefix.rank < 0 && EatNumbered(&line, &prefix.rank));
  }
  prefix.rest = line;
  return prefix;
}

// terminal sequences taken out
std::string WithoutColors(std::string_view line) {
  std::string plain(line);
  static const RE2 sequence("\x1b\\[[0-9;?]*[A-Za-z]");
  if (plain.find('\x1b') != std::string::npos) RE2::GlobalReplace(&plain, sequence, "");
  return plain;
}

// The first time stamp within the line's first letters: ISO 8601, "2026-11-26 12:00:03,123", glog's "E1126 12:00:03.1",
// "Nov 26 12:00:03", "[Thu Nov 26 12:00:03 2026]". `year` is for those that say none.
std::optional<Stamp> ParseStamp(std::string_view line, int year) {
  const re2::StringPiece text(line.data(), std::min(line.size(), kStampWithin));
  if (auto stamp = Iso(text)) return stamp;
  if (auto stamp = Glog(text, year)) return stamp;
  if (auto stamp = MonthDay(text, year)) return stamp;
  return Syslog(text, year);
}

// The year of the first date in a text that has one: some lines of the same file leave it out.
std::optional<int> YearIn(std::string_view text) {
  static const RE2 pattern(R"(\b((?:19|20)\d\d)[-/]\d\d[-/]\d\d[T _]\d\d:\d\d|\d\d:\d\d:\d\d ((?:19|20)\d\d)\])");
  std::string iso, kernel;
  int year = 0;
  if (!RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), pattern, &iso, &kernel)) return std::nullopt;
  if (!absl::SimpleAtoi(iso.empty() ? kernel : iso, &year)) return std::nullopt;
  return year;
}

LogLevel LevelOf(std::string_view line) {
  const re2::StringPiece text(line.data(), std::min(line.size(), kStampWithin));
  static const RE2 pattern(
      R"(NCCL (INFO|WARN)\b|\b(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b|(?:^|\[)([DIWEF])\d{3,4} \d\d:|^\[?([DIWEF])\])");
  std::string nccl, word, glog, letter;
  if (!RE2::PartialMatch(text, pattern, &nccl, &word, &glog, &letter)) return LogLevel::kNone;
  if (!nccl.empty()) return nccl == "INFO" ? LogLevel::kInfo : LogLevel::kError;  // WARN is all that NCCL has
  const char first = !word.empty() ? word.front() : !glog.empty() ? glog.front() : letter.front();
  return first == 'D' || first == 'I' ? LogLevel::kInfo : first == 'W' ? LogLevel::kWarning : LogLevel::kError;
}

bool IsProgress(std::string_view line) {
  static const RE2 pattern(
      R"((?i)\b(?:step|iter|iteration|epoch|batch|global_step)\b['"]?[\s:=/#\[]{0,16}\d|\bloss\b['"]?\s*[:=|]?\s*\d|\d%\||\d ?(?:it|samples|tokens|tok|images)/s|throughput: )");
  static const RE2 trouble(
      R"((?i)\berror\b|exception|traceback|fail|timeout|timed out|abort|killed|fatal|exiting|saving|saved|\bnan\b|signal)");
  const re2::StringPiece text(line.data(), std::min<std::size_t>(line.size(), 400));
  return RE2::PartialMatch(text, pattern) && !RE2::PartialMatch(text, trouble);
}

// A Python traceback, kept whole: the exception that ends it is one event, wherever its lines lie.

class Traceback {
 public:
  // `logger`: what stands before "Traceback" in its first line, and then before each line.
  Traceback(std::uint64_t line, std::string_view logger, std::optional<absl::Time> at, bool own_time, int local_rank)
      : line_(line), logger_(logger), at_(at), own_time_(own_time), local_rank_(local_rank) {}

  // The line after those that were added. False: it is the exception that ends the traceback, or no part of it.
  bool Add(std::string_view line) {
    ++line_;
    constexpr std::size_t kSame = 8;  // letters: clocks in the prefix may differ behind them
    if (line.size() >= logger_.size() && line.substr(0, kSame) == std::string_view(logger_).substr(0, kSame))
      line.remove_prefix(logger_.size());
    std::string_view text = line;
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
    if (text.empty() || text.size() < line.size()) {
      if (text.substr(0, 6) == "File \"") where_ = text;
      return ++lines_ < kMost;
    }
    // "torch.OutOfMemoryError: CUDA out of memory": a dotted name, then a colon or the line's end.
    std::size_t name = 0;
    while (name < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[name])) || text[name] == '_' || text[name] == '.'))
      ++name;
    if (name > 0 && (name == text.size() || text[name] == ':')) exception_ = text;
    return false;
  }

  bool own_time() const { return own_time_; }
  bool chained = false;

  bool HasException() const { return !exception_.empty(); }
  const std::string& exception() const { return exception_; }
  const std::string& where() const { return where_; }  // the innermost frame: "File "x.py", line 3, in f"
  std::uint64_t line_of_exception() const { return line_; }
  std::optional<absl::Time> at() const { return at_; }
  int local_rank() const { return local_rank_; }

 private:
  static constexpr int kMost = 2000;  // lines; more is no traceback

  std::uint64_t line_;
  std::string logger_;
  std::optional<absl::Time> at_;
  bool own_time_;
  int local_rank_;
  int lines_ = 0;
  std::string where_, exception_;
};

constexpr std::uint64_t kMostOfARule = 16;     // of one rank in one file that are kept; the rest are counted
constexpr std::size_t kLongestLine = 1 << 16;  // what lies behind is not looked at
constexpr std::size_t kLongestText = 2000;     // that is quoted
constexpr std::size_t kLookForPrefixes = 200;  // lines

// Which rank the text itself names: c10d's "[Rank 3]", NCCL's "host:pid:tid [3] NCCL".
struct Logged {
  int rank = -1, local_rank = -1, pid = -1;
  std::string host;
};

Logged SaidBy(std::string_view line) {
  const re2::StringPiece text(line.data(), line.size());
  Logged said;
  static const RE2 rank(
      R"(\[[^\]]*[Rr]ank (\d+)\]|\[(?:rank: |RANK:)(\d+)\]|\(\w*Worker[ _]?(?:TP|rank=)(\d+) pid=(\d+)\)|^\[[^\]]*\bTP(\d+)\b[^\]]*\])");
  static const RE2 nccl(R"(([A-Za-z0-9][\w.-]*):(\d+):\d+ \[(\d+)\] NCCL)");
  std::string c10d, logger, worker, pid, sglang;
  if (RE2::PartialMatch(text, rank, &c10d, &logger, &worker, &pid, &sglang)) {
    for (const std::string* const number : {&c10d, &logger, &worker, &sglang})
      if (!number->empty() && !absl::SimpleAtoi(*number, &said.rank)) said.rank = -1;
    if (!absl::SimpleAtoi(pid, &said.pid)) said.pid = -1;
  }
  if (RE2::PartialMatch(text, nccl, &said.host, &said.pid, &said.local_rank)) return said;
  static const RE2 kernel(R"(^\S+ +\d+ [\d:.]+ ([\w.-]+) (?:kernel|systemd)|^\d{4}-\S+ ([\w.-]+) kernel:)");
  std::string iso;
  if (RE2::PartialMatch(text, kernel, &said.host, &iso) && said.host.empty()) said.host = iso;
  return said;
}

int NumberOf(const LineFields& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    int number = 0;
    if (key == name && absl::SimpleAtoi(value, &number)) return number;
  }
  return -1;
}

// `srun -l` and the like: nearly all lines begin with "N: ".
bool IsNumbered(std::string_view block) {
  std::size_t lines = 0, numbered = 0;
  while (!block.empty() && lines < kLookForPrefixes) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    numbered += ParsePrefix(block.substr(0, end), true).rank >= 0;
    ++lines;
    block.remove_prefix(std::min(end + 1, block.size()));
  }
  return lines > 0 && numbered * 10 >= lines * 9;
}

bool IsKernelLog(std::string_view block) {
  static const RE2 pattern(
      R"((?m)^(?:<\d+>)?(?:\[ *\d+\.\d{6}\] |\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\] |.{0,60} kernel: ))");
  return RE2::PartialMatch(re2::StringPiece(block.data(), std::min<std::size_t>(block.size(), 4096)), pattern);
}

constexpr std::size_t kTailBytes = 64 << 10;
constexpr std::size_t kTailLines = 400;

class Scanner {
 public:
  Scanner(const Matcher& matcher, const LogFile& file, int year) : matcher_(matcher), file_(file), year_(year) {
    for (std::size_t i = 0; i < matcher.rules().size(); ++i)
      if (matcher.rules()[i].traceback) exception_rules_.push_back(i);
  }

  ScannedFile Run(std::atomic<std::uint64_t>* read) {
    BlockReader reader(file_.path);
    std::string_view block;
    std::uint64_t counted = 0;  // of a packed file the text is longer
    while (reader.Next(&block)) {
      if (line_ == 0) Begin(block);
      Scan(block);
      KeepTail(block);
      const std::uint64_t now = std::min(reader.bytes(), file_.bytes);
      *read += now - counted;
      counted = now;
    }
    *read += file_.bytes - counted;
    for (auto& [rank, traceback] : tracebacks_) Finish(rank, &traceback);
    ReadTail();
    out_.file = file_;
    out_.error = reader.error();
    out_.bytes = reader.bytes();
    for (auto& [rank, last] : out_.last) last.file = file_.path;
    return std::move(out_);
  }

 private:
  void Begin(std::string_view block) {
    if (std::memchr(block.data(), 0, std::min<std::size_t>(block.size(), 512))) binary_ = true;
    numbered_ = IsNumbered(block);
    out_.kernel = IsKernelLog(block);
    year_ = YearIn(block).value_or(year_);
    NoteCommunicators(block);
    DropWrongRank(block);
    // Lines of several ranks: each line's prefix is read, to know when each of them fell silent.
    std::string_view rest = block;
    for (std::size_t i = 0; i < kLookForPrefixes && !rest.empty(); ++i) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const LinePrefix prefix = ParsePrefix(rest.substr(0, end), numbered_);
      mixed_ = mixed_ || (prefix.rank >= 0 && file_.rank < 0);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  // NCCL says once which rank of the job each process of a node is.
  void NoteCommunicators(std::string_view block) {
    static const RE2 nccl(R"(:(\d+):\d+ \[\d+\] NCCL INFO [^\n]*\brank (\d+) n[rR]anks)");
    static const RE2 worker(R"(\(\w*Worker[ _]?(?:TP|rank=)(\d+) pid=(\d+)\))");
    re2::StringPiece rest(block.data(), block.size());
    int pid = 0, rank = 0;
    while (RE2::FindAndConsume(&rest, nccl, &pid, &rank)) out_.ranks_of_pids.emplace(pid, rank);
    rest = re2::StringPiece(block.data(), block.size());
    while (RE2::FindAndConsume(&rest, worker, &rank, &pid)) out_.ranks_of_pids.emplace(pid, rank);
  }

  // A pod's or a file's number is no rank if its lines name other ranks.
  void DropWrongRank(std::string_view block) {
    if (file_.rank < 0 || file_.is_local) return;
    std::set<int> named;
    for (const auto& [pid, rank] : out_.ranks_of_pids) named.insert(rank);
    for (std::size_t i = 0; i < kLookForPrefixes && !block.empty(); ++i) {
      const std::size_t end = std::min(block.find('\n'), block.size());
      named.insert(ParsePrefix(block.substr(0, end), numbered_).rank);
      block.remove_prefix(std::min(end + 1, block.size()));
    }
    named.erase(-1);
    if (named.size() > 1 || (named.size() == 1 && *named.begin() != file_.rank)) file_.rank = -1;
  }

  void KeepTail(std::string_view block) {
    if (binary_) return;
    if (block.size() >= kTailBytes) tail_.clear();
    tail_.append(block.substr(block.size() - std::min(block.size(), kTailBytes)));
    if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }

  // The last lines, the newest last; an error that nobody printed a traceback for is found among the very last.
  void ReadTail() {
    constexpr std::size_t kLastWords = 12;
    std::vector<TailLine> lines;
    std::string_view rest = tail_;
    std::uint64_t number = line_;
    if (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
    while (!rest.empty() && lines.size() < kTailLines) {
      const std::size_t before = rest.rfind('\n');
      std::string_view text = before == std::string_view::npos ? rest : rest.substr(before + 1);
      rest = rest.substr(0, before == std::string_view::npos ? 0 : before);
      const LinePrefix prefix = ParsePrefix(text.substr(0, kLongestText), numbered_);
      const Logged said = prefix.rank < 0 ? SaidBy(prefix.rest) : Logged();
      if (!prefix.rest.empty())
        lines.push_back(
            {prefix.rank < 0 ? said.rank : prefix.rank, number, WithoutColors(prefix.rest), IsProgress(prefix.rest)});
      --number;
    }
    std::reverse(lines.begin(), lines.end());
    for (std::size_t i = lines.size() - std::min(lines.size(), kLastWords); i < lines.size(); ++i) LastWords(lines[i]);
    out_.tail = std::move(lines);
  }

  // "SomeError: text" without a traceback, as a program's last words.
  void LastWords(const TailLine& line) {
    for (const Match& match : out_.matches)
      if (match.line == line.line) return;
    if (!matcher_.RulesOf(line.text).empty()) return;
    for (const std::size_t rule : exception_rules_) {
      if (matcher_.FieldsOf(rule, line.text).empty()) continue;
      LinePrefix prefix;
      prefix.rank = line.rank;
      Match* const match = Keep(rule, prefix, line.text);
      if (match) match->line = line.line;
      if (match) match->exception = true;
      if (match) match->at = last_time_;
      return;
    }
  }

  void Scan(std::string_view block) {
    if (binary_) return;
    std::size_t hit = matcher_.Next(block, 0), at = 0;
    NoteTimes(block);
    while (at < block.size()) {
      if (!tracebacks_.empty() || mixed_) {
        at = Line(block, at, &hit);  // each line counts
        continue;
      }
      if (hit == std::string_view::npos) break;
      const std::size_t before = block.rfind('\n', hit - 1);
      const std::size_t begin = std::max(before == std::string_view::npos ? 0 : before + 1, at);
      line_ += static_cast<std::uint64_t>(std::count(block.begin() + at, block.begin() + begin, '\n'));
      at = Line(block, begin, &hit);
    }
    line_ += static_cast<std::uint64_t>(std::count(block.begin() + std::min(at, block.size()), block.end(), '\n'));
    last_time_ = block_last_time_;
    timeless_block_ = nullptr;  // the next block lies at the same place
  }

  // The line that begins at `begin`; `hit` is the next one of Matcher::Next. Returns where the next line begins.
  std::size_t Line(std::string_view block, std::size_t begin, std::size_t* hit) {
    const std::size_t end = std::min(block.find('\n', begin), block.size());
    const bool has_text = *hit <= end;
    if (*hit <= end + 1) *hit = end < block.size() ? matcher_.Next(block, end + 1) : std::string_view::npos;
    ++line_;
    std::string_view line = block.substr(begin, std::min(end - begin, kLongestLine));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    LinePrefix prefix = ParsePrefix(line, numbered_);
    if (mixed_) NoteLine(prefix);
    if (has_text || !tracebacks_.empty()) Look(block, begin, prefix, has_text);
    return end + 1;
  }

  void Look(std::string_view block, std::size_t begin, const LinePrefix& prefix, bool has_text) {
    const std::string text = WithoutColors(prefix.rest);
    const auto traceback = tracebacks_.find(prefix.rank);
    if (traceback != tracebacks_.end()) {
      if (traceback->second.Add(text)) return;
      if (traceback->second.HasException()) {
        Finish(prefix.rank, &traceback->second);
        tracebacks_.erase(traceback);
        return;
      }
      tracebacks_.erase(traceback);
    }
    if (text.find(kTracebackBegin) != std::string::npos) {
      constexpr std::uint64_t kBetweenChained = 4;  // lines: "During handling of the above exception, ..."
      const auto at = TimeBefore(block, begin);
      Traceback begun(line_, text.substr(0, text.find(kTracebackBegin)), at, at && own_time_, prefix.local_rank);
      const auto ended = exception_ends_.find(prefix.rank);
      begun.chained = ended != exception_ends_.end() && line_ <= ended->second + kBetweenChained;
      tracebacks_.emplace(prefix.rank, std::move(begun));
      return;
    }
    if (!has_text) return;
    const std::vector<std::size_t> rules = matcher_.RulesOf(text);
    if (rules.empty()) return;
    Match* const match = Keep(rules.front(), prefix, text);
    if (!match) return;
    match->at = TimeBefore(block, begin);
    match->own_time = own_time_;
  }

  // The exception that ends a traceback: by the first rule that knows it, else as any exception.
  void Finish(int rank, Traceback* traceback) {
    if (!traceback->HasException()) return;
    exception_ends_[rank] = traceback->line_of_exception();
    const std::string text = traceback->exception();
    const std::vector<std::size_t> rules = matcher_.RulesOf(text);
    std::optional<std::size_t> rule;
    if (!rules.empty()) rule = rules.front();
    for (std::size_t i = 0; i < exception_rules_.size() && !rule; ++i)
      if (!matcher_.FieldsOf(exception_rules_[i], text).empty()) rule = exception_rules_[i];
    LinePrefix prefix;
    prefix.rank = rank;
    prefix.local_rank = traceback->local_rank();
    Match* const match = rule ? Keep(*rule, prefix, text) : nullptr;
    if (!match) return;
    match->at = traceback->at();
    match->own_time = traceback->own_time();
    match->exception = true;
    match->chained = traceback->chained;
    match->line = traceback->line_of_exception();
    if (!traceback->where().empty()) match->fields.emplace_back("where", traceback->where());
  }

  Match* Keep(std::size_t rule, const LinePrefix& prefix, const std::string& text) {
    Match match;
    match.rule = rule;
    const Logged said = SaidBy(text);
    match.fields = matcher_.FieldsOf(rule, text);
    match.rank = NumberOf(match.fields, "rank");
    for (const int rank : {prefix.rank, said.rank, file_.is_local ? -1 : file_.rank})
      if (match.rank < 0) match.rank = rank;
    for (const int local : {prefix.local_rank, said.local_rank, file_.is_local ? file_.rank : -1})
      if (match.local_rank < 0) match.local_rank = local;
    for (const auto& [name, value] : match.fields)
      if (name == "host") match.host = value;
    if (match.host.empty()) match.host = said.host.empty() ? file_.host : said.host;
    match.pid = NumberOf(match.fields, "pid");
    if (match.pid < 0) match.pid = said.pid;
    if (said.pid >= 0 && match.rank >= 0) out_.ranks_of_pids[said.pid] = match.rank;
    auto& [index, times] = kept_[{rule, match.rank, match.local_rank}];
    if (++times > kMostOfARule) {
      out_.matches[index].times = times;
      return nullptr;
    }
    match.file = file_.path;
    match.line = line_;
    match.text = text.substr(0, kLongestText);
    match.level = LevelOf(text);
    if (times == 1) index = out_.matches.size();
    out_.matches.push_back(std::move(match));
    out_.matches[index].times = times;
    return &out_.matches.back();
  }

  // Of the line that begins at `begin`, else of the nearest one before it in this block, else of the block before.
  std::optional<absl::Time> TimeBefore(std::string_view block, std::size_t begin) {
    constexpr int kLinesBack = 400;
    std::size_t at = begin;
    own_time_ = false;
    for (int i = 0; i < kLinesBack; ++i) {
      // Already looked at for an earlier line, in vain: logs without times have many lines that ask.
      if (block.data() == timeless_block_ && at < timeless_end_) break;
      const std::size_t end = std::min(block.find('\n', at), block.size());
      if (const auto stamp = ParseStamp(ParsePrefix(block.substr(at, end - at), numbered_).rest, year_)) {
        own_time_ = at == begin;
        return stamp->time;
      }
      if (at == 0) break;
      const std::size_t before = at < 2 ? std::string_view::npos : block.rfind('\n', at - 2);
      at = before == std::string_view::npos ? 0 : before + 1;
    }
    timeless_block_ = block.data();
    timeless_end_ = begin + 1;
    return last_time_;
  }

  // Of a file of one rank: the first and the last time of the block.
  void NoteTimes(std::string_view block) {
    constexpr int kLinesIn = 50;
    std::string_view ahead = block;
    for (int i = 0; i < kLinesIn && !ahead.empty() && !first_time_; ++i) {
      const std::size_t end = std::min(ahead.find('\n'), ahead.size());
      if (const auto stamp = ParseStamp(ahead.substr(0, end), year_)) first_time_ = stamp->time;
      ahead.remove_prefix(std::min(end + 1, ahead.size()));
    }
    const std::uint64_t lines = static_cast<std::uint64_t>(std::count(block.begin(), block.end(), '\n'));
    block_last_time_ = TimeBefore(block, block.size() < 2 ? 0 : LastLineOf(block));
    if (!mixed_ && first_time_ && block_last_time_) {
      LastLine& last = out_.last[file_.is_local ? -1 : file_.rank];
      last = {*first_time_, *block_last_time_, {}, line_ + lines, last.lines + lines};
    }
  }
  static std::size_t LastLineOf(std::string_view block) {
    const std::size_t before = block.rfind('\n', block.size() - 2);
    return before == std::string_view::npos ? 0 : before + 1;
  }

  // Of a file of several ranks: each line's time counts for its rank.
  void NoteLine(const LinePrefix& prefix) {
    if (prefix.rank < 0) return;
    const auto stamp = ParseStamp(prefix.rest, year_);
    auto [row, fresh] = out_.last.try_emplace(prefix.rank);
    ++row->second.lines;
    if (!stamp) return;
    if (row->second.line == 0) row->second.first_at = stamp->time;
    row->second.at = stamp->time;
    row->second.line = line_;
  }

  const Matcher& matcher_;
  LogFile file_;  // its rank is dropped if the lines name others
  int year_;      // of stamps that have none
  ScannedFile out_;
  std::vector<std::size_t> exception_rules_;
  std::map<int, Traceback> tracebacks_;          // that go on, by the rank of their lines' prefix
  std::map<int, std::uint64_t> exception_ends_;  // the line with the last exception, by rank
  std::string tail_;                             // the last kTailBytes so far
  bool own_time_ = false;                        // what TimeBefore() found last stood in the line itself
  std::map<std::tuple<std::size_t, int, int>, std::pair<std::size_t, std::uint64_t>> kept_;
  std::optional<absl::Time> first_time_, last_time_, block_last_time_;
  const char* timeless_block_ = nullptr;  // lines of it up to timeless_end_ have no time
  std::size_t timeless_end_ = 0;
  std::uint64_t line_ = 0;
  bool numbered_ = false, mixed_ = false, binary_ = false;
};

}  // namespace

ScannedFile ScanLog(const Matcher& matcher, const LogFile& file, int year, std::atomic<std::uint64_t>* read) {
  return Scanner(matcher, file, year).Run(read);
}

}  // namespace ncclwatch::analyzer
