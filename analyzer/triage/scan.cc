#include "analyzer/triage/scan.h"

#include <absl/strings/numbers.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstring>

#include "analyzer/triage/line.h"
#include "analyzer/triage/traceback.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kMostOfARule = 16;     // of one rank in one file that are kept; the rest are counted
constexpr std::size_t kLongestLine = 1 << 16;  // what lies behind is not looked at
constexpr std::size_t kLongestText = 2000;     // that is quoted
constexpr std::size_t kLookForPrefixes = 200;  // lines

// Which rank the text itself names: c10d's "[Rank 3]", NCCL's "host:pid:tid [3] NCCL".
struct Said {
  int rank = -1, local_rank = -1, pid = -1;
  std::string host;
};

Said SaidBy(std::string_view line) {
  const re2::StringPiece text(line.data(), line.size());
  Said said;
  static const RE2 rank(R"(\[[^\]]*[Rr]ank (\d+)\])");
  static const RE2 nccl(R"(([A-Za-z0-9][\w.-]*):(\d+):\d+ \[(\d+)\] NCCL)");
  RE2::PartialMatch(text, rank, &said.rank);
  if (RE2::PartialMatch(text, nccl, &said.host, &said.pid, &said.local_rank)) return said;
  static const RE2 kernel(R"(^\S+ +\d+ [\d:.]+ ([\w.-]+) (?:kernel|systemd)|^\d{4}-\S+ ([\w.-]+) kernel:)");
  std::string iso;
  if (RE2::PartialMatch(text, kernel, &said.host, &iso) && said.host.empty()) said.host = iso;
  return said;
}

int NumberOf(const Fields& fields, std::string_view name) {
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

class Scanner {
 public:
  Scanner(const Matcher& matcher, const LogFile& file, int year) : matcher_(matcher), file_(file), year_(year) {
    out_.file = file;
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
      const std::uint64_t now = std::min(reader.bytes(), file_.bytes);
      *read += now - counted;
      counted = now;
    }
    *read += file_.bytes - counted;
    for (auto& [rank, traceback] : tracebacks_) Finish(rank, &traceback);
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
    // Lines of several ranks: each line's prefix is read, to know when each of them fell silent.
    std::string_view rest = block;
    for (std::size_t i = 0; i < kLookForPrefixes && !rest.empty(); ++i) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const LinePrefix prefix = ParsePrefix(rest.substr(0, end), numbered_);
      mixed_ = mixed_ || (prefix.rank >= 0 && file_.rank < 0);
      rest.remove_prefix(std::min(end + 1, rest.size()));
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
    if (text.find(kTracebackBegin) != std::string::npos) {  // a logger may write something before
      tracebacks_.emplace(prefix.rank, Traceback(line_, TimeBefore(block, begin), prefix.local_rank));
      return;
    }
    if (!has_text) return;
    const std::vector<std::size_t> rules = matcher_.RulesOf(text);
    if (rules.empty()) return;
    if (Match* const match = Keep(rules.front(), prefix, text)) match->at = TimeBefore(block, begin);
  }

  // The exception that ends a traceback: by the first rule that knows it, else as any exception.
  void Finish(int rank, Traceback* traceback) {
    if (!traceback->HasException()) return;
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
    match->line = traceback->line_of_exception();
    if (!traceback->where().empty()) match->fields.emplace_back("where", traceback->where());
  }

  Match* Keep(std::size_t rule, const LinePrefix& prefix, const std::string& text) {
    Match match;
    match.rule = rule;
    const Said said = SaidBy(text);
    match.fields = matcher_.FieldsOf(rule, text);
    match.rank = NumberOf(match.fields, "rank");
    for (const int rank : {prefix.rank, said.rank, file_.is_local ? -1 : file_.rank})
      if (match.rank < 0) match.rank = rank;
    for (const int local : {prefix.local_rank, said.local_rank, file_.is_local ? file_.rank : -1})
      if (match.local_rank < 0) match.local_rank = local;
    for (const auto& [name, value] : match.fields)
      if (name == "host") match.host = value;
    if (match.host.empty()) match.host = said.host.empty() ? file_.host : said.host;
    if (said.pid >= 0 && match.rank >= 0) out_.ranks_of_pids[said.pid] = match.rank;
    auto& [index, times] = kept_[{rule, match.rank, match.local_rank}];
    if (++times > kMostOfARule) {
      out_.matches[index].times = times;
      return nullptr;
    }
    match.file = file_.path;
    match.line = line_;
    match.text = text.substr(0, kLongestText);
    if (times == 1) index = out_.matches.size();
    out_.matches.push_back(std::move(match));
    out_.matches[index].times = times;
    return &out_.matches.back();
  }

  // Of the line that begins at `begin`, else of the nearest one before it in this block, else of the block before.
  std::optional<absl::Time> TimeBefore(std::string_view block, std::size_t begin) {
    constexpr int kLinesBack = 400;
    std::size_t at = begin;
    for (int i = 0; i < kLinesBack; ++i) {
      // Already looked at for an earlier line, in vain: logs without times have many lines that ask.
      if (block.data() == timeless_block_ && at < timeless_end_) break;
      const std::size_t end = std::min(block.find('\n', at), block.size());
      if (const auto stamp = ParseStamp(ParsePrefix(block.substr(at, end - at), numbered_).rest, year_))
        return stamp->time;
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
  const LogFile& file_;
  const int year_;
  ScannedFile out_;
  std::vector<std::size_t> exception_rules_;
  std::map<int, Traceback> tracebacks_;  // that go on, by the rank of their lines' prefix
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
