#include "analyzer/triage/scan.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "analyzer/triage/lines.h"
#include "analyzer/triage/prefix.h"
#include "analyzer/triage/stamp.h"
#include "analyzer/triage/streams.h"
#include "analyzer/triage/traceback.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kMostOfARule = 16;      // of one process in one file that are kept; the rest are counted
constexpr std::size_t kLongestLine = 1 << 16;   // what lies behind is not looked at
constexpr std::size_t kLongestText = 2000;      // that is quoted
constexpr std::size_t kFirstLines = 200;        // by which a file is judged
constexpr std::size_t kFirstBytes = 256 << 10;  // in which processes introduce themselves

int NumberIn(const LineFields& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    int number = 0;
    if (key == name && absl::SimpleAtoi(value, &number)) return number;
  }
  return -1;
}

// Line ends, eight letters at a time.
std::uint64_t CountLines(std::string_view text) {
  constexpr std::uint64_t kLineEnds = 0x0a0a0a0a0a0a0a0a, kLow = 0x7f7f7f7f7f7f7f7f, kOnes = 0x0101010101010101;
  std::uint64_t count = 0;
  for (; text.size() >= sizeof(std::uint64_t); text.remove_prefix(sizeof(std::uint64_t))) {
    std::uint64_t letters = 0;
    std::memcpy(&letters, text.data(), sizeof letters);
    letters ^= kLineEnds;
    // The high bit of each byte that is zero; the product adds them up.
    count += ((~(((letters & kLow) + kLow) | letters | kLow) >> 7) * kOnes) >> 56;
  }
  return count + static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// "[ 1234.567890] ...": seconds since the machine started. Dates in such lines are about something else.
bool CountsSeconds(std::string_view block) {
  static const RE2 pattern(R"(^(?:<\d+>)?\[ *\d+\.\d{6}\] )");
  return RE2::PartialMatch(re2::StringPiece(block.data(), std::min<std::size_t>(block.size(), 64)), pattern);
}

bool IsKernelLog(std::string_view block) {
  static const RE2 pattern(
      R"((?m)^(?:<\d+>)?(?:\[ *\d+\.\d{6}\] |\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\] |.{0,60} kernel: ))");
  return RE2::PartialMatch(re2::StringPiece(block.data(), std::min<std::size_t>(block.size(), 4096)), pattern);
}

// Of a line that no traceback comes before: other dotted names are loggers.
bool NamesAnError(const std::string& line) {
  static const RE2 pattern(R"(^[\w.]*(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Fault)\b)");
  return RE2::PartialMatch(line, pattern);
}

// "FATAL: time step underflow", "ERROR on proc 3: ...", as programs say it that raise nothing.
bool SaysItIsFatal(const std::string& line) {
  static const RE2 pattern(R"(^[\s*>-]{0,8}(?:FATAL|ERROR|Fatal [Ee]rror|fatal error)(?: on \w+ \d+| \w+)?\s?:\s)");
  return RE2::PartialMatch(line, pattern);
}

bool IsSameProcess(const LinePrefix& a, const LinePrefix& b) {
  return a.rank == b.rank && a.local_rank == b.local_rank && a.pid == b.pid;
}

bool Has(std::string_view line, std::string_view text) { return line.find(text) != std::string_view::npos; }

constexpr int kLinesOfOthers = 40;  // between two lines of a process

template <typename Visit>
void ForFirstLines(std::string_view block, Visit visit) {
  for (std::size_t i = 0; i < kFirstLines && !block.empty(); ++i) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    visit(block.substr(0, end));
    block.remove_prefix(std::min(end + 1, block.size()));
  }
}

class Scanner {
 public:
  Scanner(const Matcher& matcher, const LogFile& file, int year) : matcher_(matcher), file_(file), year_(year) {
    for (std::size_t i = 0; i < matcher.rules().size(); ++i) {
      if (matcher.rules()[i].traceback) exception_rules_.push_back(i);
    }
  }

  ScannedFile Run(std::atomic<std::uint64_t>* read) {
    BlockReader reader(file_.path);
    std::string_view block;
    std::uint64_t counted = 0;  // of a packed file the text is longer
    while (reader.Next(&block)) {
      if (line_ == 0) Begin(block);
      Scan(block);
      const std::uint64_t now = std::min(reader.bytes(), file_.bytes);
      *read += now - counted;
      counted = now;
    }
    *read += file_.bytes - counted;
    for (auto& [stream, traceback] : tracebacks_) Finish(stream, &traceback);
    out_.streams = streams_.Finish(style_, line_, year_, &out_.ranks_of_pids);
    for (const Match& match : out_.matches) matched_.insert(match.line);
    for (std::size_t stream = 0; stream < out_.streams.size(); ++stream) ReadLastWords(stream);
    SettleStreams();
    out_.file = file_;
    out_.error = reader.error();
    out_.bytes = reader.bytes();
    return std::move(out_);
  }

 private:
  void Begin(std::string_view block) {
    block = block.substr(0, block.rfind('\n', kFirstBytes));
    if (std::memchr(block.data(), 0, std::min<std::size_t>(block.size(), 512))) binary_ = true;
    style_ = StyleOf(block);
    out_.kernel = IsKernelLog(block);
    if (out_.kernel) file_.rank = -1;
    timeless_ = out_.kernel && CountsSeconds(block);
    constexpr std::size_t kDate = 40;  // letters; a driver says later when it was built
    out_.year = YearIn(out_.kernel ? block.substr(0, kDate) : block);
    year_ = out_.year.value_or(year_);
    NoteCommunicators(block);
    std::set<int> named;
    ForFirstLines(block, [&](std::string_view line) {
      const LinePrefix prefix = ParsePrefix(line, style_);
      // Lines of several processes: each line's prefix is read.
      mixed_ = mixed_ || (prefix.says_whose() && file_.rank < 0);
      named.insert({prefix.rank, OwnRankIn(prefix.rest)});
    });
    for (const auto& [pid, rank] : out_.ranks_of_pids) named.insert(rank);
    named.erase(-1);
    if (named.size() == 1) out_.named_rank = *named.begin();
    // A pod's or a file's number is no rank if its lines name other ranks.
    const bool wrong = named.size() > 1 || (named.size() == 1 && !named.count(file_.rank));
    if (file_.rank >= 0 && !file_.is_local && wrong) {
      file_.rank = -1;
      ForFirstLines(block, [&](std::string_view line) { mixed_ = mixed_ || ParsePrefix(line, style_).says_whose(); });
    }
  }

  // NCCL says once which rank of the job each process of a node is.
  void NoteCommunicators(std::string_view block) {
    if (block.find("NCCL INFO") == std::string_view::npos && block.find("Worker") == std::string_view::npos) return;
    static const RE2 nccl(R"(:(\d+):\d+ \[\d+\] NCCL INFO [^\n]*\brank (\d+) n[rR]anks)");
    static const RE2 worker(R"(\(\w*Worker[ _]?(?:TP|rank=)(\d+) pid=(\d+)\))");
    re2::StringPiece rest(block.data(), block.size());
    int pid = 0, rank = 0;
    while (RE2::FindAndConsume(&rest, nccl, &pid, &rank)) out_.ranks_of_pids.emplace(pid, rank);
    static const RE2 gpu(
        R"(([A-Za-z0-9][\w.-]*):\d+:\d+ \[\d+\] NCCL INFO [^\n]*\brank (\d+) n[rR]anks[^\n]*\bbusId (\w+)000\b)");
    rest = re2::StringPiece(block.data(), block.size());
    std::string host, bus;
    while (RE2::FindAndConsume(&rest, gpu, &host, &rank, &bus))
      out_.ranks_of_gpus.emplace(std::pair(host, absl::AsciiStrToLower(bus)), rank);
    rest = re2::StringPiece(block.data(), block.size());
    while (RE2::FindAndConsume(&rest, worker, &rank, &pid)) out_.ranks_of_pids.emplace(pid, rank);
  }

  void Scan(std::string_view block) {
    if (binary_) return;
    std::size_t hit = matcher_.Next(block, 0), at = 0;
    if (!mixed_) streams_.AddBlock(block);
    while (at < block.size()) {
      if (!tracebacks_.empty() || mixed_) {
        at = Line(block, at, &hit);  // each line counts
        continue;
      }
      if (hit == std::string_view::npos) break;
      const std::size_t before = block.rfind('\n', hit - 1);
      const std::size_t begin = std::max(before == std::string_view::npos ? 0 : before + 1, at);
      line_ += CountLines(block.substr(at, begin - at));
      at = Line(block, begin, &hit);
    }
    const std::string_view rest = block.substr(std::min(at, block.size()));
    line_ += CountLines(rest);
    if (!rest.empty() && rest.back() != '\n') ++line_;  // the log's last line, which is not ended
    last_time_ = TimeBefore(block, block.size());
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
    const LinePrefix prefix = ParsePrefix(line, style_);
    const bool other = prefix.says_whose() && file_.rank < 0;
    const std::size_t stream = mixed_ || other ? streams_.Add(prefix, line, line_) : 0;
    if (has_text || !tracebacks_.empty()) Look(block, begin, stream, prefix, has_text);
    return end + 1;
  }

  void Look(std::string_view block, std::size_t begin, std::size_t stream, const LinePrefix& prefix, bool has_text) {
    const std::string text = WithoutColors(prefix.rest);
    const auto traceback = tracebacks_.find(stream);
    if (traceback != tracebacks_.end()) {
      if (traceback->second.Add(text)) return;
      const bool ended = traceback->second.HasException();
      traceback->second.caught |= IsCaughtBehind(block, begin, prefix);
      if (ended) Finish(stream, &traceback->second);
      tracebacks_.erase(traceback);
      if (ended) return;
    }
    if (text.find(kTracebackBegin) != std::string::npos) {
      BeginTraceback(block, begin, stream, prefix, text);
      return;
    }
    if (!has_text) return;
    const auto rule = matcher_.RuleOf(text);
    if (!rule) return;
    Match* const match = Keep(*rule, stream, prefix, text);
    if (!match) return;
    match->at = TimeBefore(block, begin);
    match->own_time = own_time_;
  }

  void BeginTraceback(std::string_view block, std::size_t begin, std::size_t stream, const LinePrefix& whose,
                      const std::string& text) {
    Traceback begun(line_, text.substr(0, text.find(kTracebackBegin)));
    begun.at = TimeBefore(block, begin);
    begun.own_time = begun.at && own_time_;
    const std::string_view before = LineBefore(block.substr(0, begin), whose);
    // "During handling of the above exception, ...", "The above exception was the direct cause ..."
    begun.chained = Has(before, "above exception");
    begun.caught = Has(before, "Exception ignored in") || Has(before, "Error in atexit");
    tracebacks_.emplace(stream, std::move(begun));
  }

  // The last line in `before` that has text and is of the same process.
  std::string_view LineBefore(std::string_view before, const LinePrefix& whose) const {
    for (int i = 0; i < kLinesOfOthers && !before.empty(); ++i) {
      before.remove_suffix(1);  // a line's end
      const std::size_t end = before.rfind('\n');
      const std::size_t begin = end == std::string_view::npos ? 0 : end + 1;
      const LinePrefix prefix = ParsePrefix(before.substr(begin), style_);
      if (!prefix.rest.empty() && IsSameProcess(prefix, whose)) return prefix.rest;
      before = before.substr(0, begin);
    }
    return {};
  }

  // The program's next line says that it goes on. `begin`: of the line with the exception.
  bool IsCaughtBehind(std::string_view block, std::size_t begin, const LinePrefix& whose) const {
    std::size_t end = block.find('\n', begin);
    for (int i = 0; i < kLinesOfOthers && end != std::string_view::npos && end + 1 < block.size(); ++i) {
      const std::size_t next = block.find('\n', end + 1);
      const LinePrefix prefix = ParsePrefix(block.substr(end + 1, next - end - 1), style_);
      end = next;
      if (IsSameProcess(prefix, whose)) return LivesWithout(prefix.rest);
    }
    return false;
  }

  // The exception that ends a traceback: by the first rule that knows it, else as any exception.
  void Finish(std::size_t stream, Traceback* traceback) {
    if (!traceback->HasException()) return;
    const std::string text = traceback->exception();
    // Where it was raised may say more than what.
    auto rule = matcher_.RuleOf(text + " in " + traceback->where());
    if (!rule) rule = matcher_.RuleOf(text);
    if (!rule) rule = FirstOf(exception_rules_, text);
    Match* const match = rule ? Keep(*rule, stream, streams_.PrefixOf(stream), text) : nullptr;
    if (!match) return;
    match->at = traceback->at;
    match->own_time = traceback->own_time;
    match->exception = true;
    match->chained = traceback->chained;
    match->caught = traceback->caught;
    match->line = traceback->line_of_exception();
    if (!traceback->where().empty()) match->fields.emplace_back("where", traceback->where());
  }

  Match* Keep(std::size_t rule, std::size_t stream, const LinePrefix& prefix, const std::string& text) {
    Match match;
    match.rule = rule;
    match.stream = stream;
    const Speaker said = SpeakerOf(text);
    const bool names_rank = matcher_.NamesRank(rule);
    if (names_rank) match.fields = matcher_.FieldsOf(rule, text);
    match.rank = NumberIn(match.fields, "rank");
    for (const int rank : {prefix.rank, said.rank, file_.is_local ? -1 : file_.rank})
      if (match.rank < 0) match.rank = rank;
    if (said.pid >= 0 && match.rank >= 0) out_.ranks_of_pids[said.pid] = match.rank;
    auto& [index, times] = kept_[{rule, match.rank, stream}];
    if (++times > kMostOfARule) {
      out_.matches[index].times = times;
      return nullptr;
    }
    if (!names_rank) match.fields = matcher_.FieldsOf(rule, text);
    for (const int local : {prefix.local_rank, said.local_rank, file_.is_local ? file_.rank : -1})
      if (match.local_rank < 0) match.local_rank = local;
    for (const auto& [name, value] : match.fields)
      if (name == "host") match.host = value;
    for (const std::string_view host : {std::string_view(said.host), prefix.host, std::string_view(file_.host)})
      if (match.host.empty()) match.host = host;
    match.pid = NumberIn(match.fields, "pid");
    for (const int pid : {said.pid, prefix.pid})
      if (match.pid < 0) match.pid = pid;
    match.file = file_.path;
    match.line = line_;
    match.text = text.substr(0, kLongestText);
    match.level = LevelOf(text);
    if (times == 1) index = out_.matches.size();
    out_.matches.push_back(std::move(match));
    out_.matches[index].times = times;
    return &out_.matches.back();
  }

  // "SomeError: text" without a traceback, as a program's last words.
  void ReadLastWords(std::size_t stream) {
    constexpr std::size_t kLastWords = 12;
    const std::vector<TailLine>& tail = out_.streams[stream].tail;
    if (out_.kernel) return;
    for (std::size_t i = tail.size() - std::min(tail.size(), kLastWords); i < tail.size(); ++i) {
      if (matched_.count(tail[i].line)) continue;
      if (i > 0 && tail[i - 1].text.rfind("Exception ignored", 0) == 0) continue;
      if (matcher_.RuleOf(tail[i].text)) continue;
      const bool named = NamesAnError(tail[i].text);
      if (!named && !SaysItIsFatal(tail[i].text)) continue;
      const auto rule = FirstOf(exception_rules_, tail[i].text);
      Match* const match = rule ? Keep(*rule, stream, streams_.PrefixOf(stream), tail[i].text) : nullptr;
      if (!match) continue;
      match->line = tail[i].line;
      match->exception = named;
      match->at = mixed_ ? out_.streams[stream].last_at : last_time_;
    }
  }

  std::optional<std::size_t> FirstOf(const std::vector<std::size_t>& rules, const std::string& text) const {
    for (const std::size_t rule : rules)
      if (matcher_.Has(rule, text)) return rule;
    return std::nullopt;
  }

  // What the file's name, or its place, says of its only stream.
  void SettleStreams() {
    if (out_.streams.empty() || mixed_) return;
    Stream& only = out_.streams.front();
    (file_.is_local ? only.local_rank : only.rank) = file_.rank;
    if (only.host.empty()) only.host = file_.host;
  }

  // Of the line that begins at `begin`, else of the nearest one before it that has one, whoever wrote it.
  std::optional<absl::Time> TimeBefore(std::string_view block, std::size_t begin) {
    constexpr int kLinesBack = 400;
    std::size_t at = begin;
    own_time_ = false;
    if (timeless_) return std::nullopt;
    for (int i = 0; i < kLinesBack; ++i) {
      // Already looked at for an earlier line, in vain: logs without times have many lines that ask.
      if (block.data() == timeless_block_ && at < timeless_end_) break;
      const std::size_t end = std::min(block.find('\n', at), block.size());
      if (const auto stamp = ParseStamp(block.substr(at, end - at), year_)) {
        own_time_ = at == begin;
        return stamp;
      }
      if (at == 0) break;
      const std::size_t before = at < 2 ? std::string_view::npos : block.rfind('\n', at - 2);
      at = before == std::string_view::npos ? 0 : before + 1;
    }
    timeless_block_ = block.data();
    timeless_end_ = begin + 1;
    return last_time_;
  }

  const Matcher& matcher_;
  LogFile file_;  // its rank is dropped if the lines name others
  int year_;      // of stamps that have none
  ScannedFile out_;
  Streams streams_;
  std::vector<std::size_t> exception_rules_;
  std::map<std::size_t, Traceback> tracebacks_;  // that go on, by stream
  std::set<std::uint64_t> matched_;              // lines with matches
  bool own_time_ = false;                        // what TimeBefore() found last stood in the line itself
  std::map<std::tuple<std::size_t, int, std::size_t>, std::pair<std::size_t, std::uint64_t>> kept_;
  std::optional<absl::Time> last_time_;
  const char* timeless_block_ = nullptr;  // lines of it up to timeless_end_ have no time
  std::size_t timeless_end_ = 0;
  std::uint64_t line_ = 0;
  PrefixStyle style_;
  bool mixed_ = false, binary_ = false, timeless_ = false;
};

}  // namespace

ScannedFile ScanLog(const Matcher& matcher, const LogFile& file, int year, std::atomic<std::uint64_t>* read) {
  return Scanner(matcher, file, year).Run(read);
}

}  // namespace ncclwatch::analyzer
