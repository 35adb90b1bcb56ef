#include "analyzer/triage/streams.h"

#include <algorithm>

#include "analyzer/triage/lines.h"
#include "analyzer/triage/stamp.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kRing = 60;  // lines of a stream
constexpr std::size_t kManyStreams = 2048;
constexpr std::size_t kShortRing = 20;  // lines, where there are many streams
constexpr std::size_t kText = 400;      // letters of a line
constexpr std::size_t kHeadBytes = 8 << 10, kTailBytes = 64 << 10;
constexpr std::size_t kTailLines = 400;
constexpr std::uint64_t kIntroduces = 50;  // lines in which a process says which rank it is

std::string_view LastLineOf(std::string_view text) {
  const std::size_t before = text.rfind('\n');
  return before == std::string_view::npos ? text : text.substr(before + 1);
}

TailLine Told(std::uint64_t number, std::string_view rest) {
  TailLine line{number, WithoutColors(rest), {}};
  line.kind = KindOf(line.text);
  return line;
}

// `line`: whole, with its prefix and time.
void Take(TailLine told, std::string_view line, int year, Stream* stream) {
  if (told.kind == TailLine::Kind::kProgress)
    if (const auto at = ParseStamp(line, year)) stream->progress_at = std::max(at, stream->progress_at);
  stream->tail.push_back(std::move(told));
}

}  // namespace

void Streams::AddBlock(std::string_view block) {
  blocks_ = true;
  if (head_.empty()) head_ = block.substr(0, kHeadBytes);
  if (block.size() >= kTailBytes) tail_.clear();
  tail_.append(block.substr(block.size() - std::min(block.size(), kTailBytes)));
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

// A process is known by its rank; by pid or local rank until that is said.
std::size_t Streams::Find(const LinePrefix& prefix) {
  if (!prefix.says_whose()) return 0;
  const std::pair process(prefix.pid, prefix.local_rank);
  const bool has_process = prefix.pid >= 0 || prefix.local_rank >= 0;
  if (has_process) {
    const auto known = by_process_.find(process);
    if (known != by_process_.end()) {
      const int rank = streams_[known->second].told.rank;
      if (prefix.rank < 0 || rank < 0 || rank == prefix.rank) return known->second;
    }
  }
  const Key key(prefix.rank, has_process && prefix.rank < 0 ? prefix.local_rank : -1, prefix.rank < 0 ? prefix.pid : -1,
                prefix.rank < 0 ? std::string(prefix.host) : std::string());
  const auto [row, fresh] = by_key_.try_emplace(key, streams_.size());
  if (fresh) streams_.emplace_back();
  if (has_process) by_process_.emplace(process, row->second);
  return row->second;
}

std::size_t Streams::Add(const LinePrefix& prefix, std::string_view line, std::uint64_t number) {
  const std::size_t index = Find(prefix);
  Open& open = streams_[index];
  Stream& told = open.told;
  if (told.rank < 0) told.rank = prefix.rank;
  if (told.local_rank < 0) told.local_rank = prefix.local_rank;
  if (told.pid < 0) told.pid = prefix.pid;
  if (told.host.empty()) told.host = prefix.host;
  if (index > 0 && told.rank < 0 && told.lines < kIntroduces && told.is_process()) told.rank = OwnRankIn(prefix.rest);
  if (told.lines++ == 0) open.first = line.substr(0, kText);
  told.last_line = number;
  const std::size_t most = streams_.size() > kManyStreams ? kShortRing : kRing;
  if (open.ring.size() < most)
    open.ring.emplace_back();
  else if (open.next >= open.ring.size())
    open.next = 0;
  Line& kept = open.ring[open.next++];
  kept.number = number;
  kept.text = line.substr(0, kText);
  kept.prefix = std::min(kept.text.size(), line.size() - prefix.rest.size());
  return index;
}

// The last line is 0 back.
const Streams::Line& Streams::Back(const Open& open, std::size_t back) const {
  const std::size_t size = open.ring.size();
  return open.ring[(open.next + size - 1 - back % size) % size];
}

LinePrefix Streams::PrefixOf(std::size_t stream) const {
  const Stream& told = streams_[stream].told;
  return {told.rank, told.local_rank, told.pid, told.host, {}};
}

void Streams::FinishBlocks(const PrefixStyle& style, std::uint64_t lines, int year) {
  Stream& only = streams_.front().told;
  only.lines = only.last_line = lines;
  for (std::string_view head = head_; !head.empty() && !only.first_at;) {
    const std::size_t end = std::min(head.find('\n'), head.size());
    only.first_at = ParseStamp(head.substr(0, end), year);
    head.remove_prefix(std::min(end + 1, head.size()));
  }
  std::string_view rest = tail_;
  if (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  for (std::uint64_t number = lines; !rest.empty() && only.tail.size() < kTailLines; --number) {
    const std::string_view line = LastLineOf(rest);
    if (!only.last_at) only.last_at = ParseStamp(line, year);
    const std::string_view text = ParsePrefix(line.substr(0, kText), style).rest;
    if (!text.empty()) Take(Told(number, text), line, year, &only);
    rest.remove_suffix(std::min(line.size() + 1, rest.size()));
  }
  std::reverse(only.tail.begin(), only.tail.end());
}

std::vector<Stream> Streams::Finish(const PrefixStyle& style, std::uint64_t lines, int year,
                                    std::map<int, int>* ranks_of_pids) {
  std::vector<Stream> finished;
  for (Open& open : streams_) {
    Stream& told = open.told;
    told.first_at = ParseStamp(open.first, year);
    for (std::size_t back = open.ring.size(); back-- > 0;) {
      const Line& line = Back(open, back);
      const std::string_view text = std::string_view(line.text).substr(line.prefix);
      if (const auto at = ParseStamp(line.text, year)) told.last_at = at;
      if (!text.empty()) Take(Told(line.number, text), line.text, year, &told);
    }
    if (told.pid >= 0 && told.rank >= 0) ranks_of_pids->emplace(told.pid, told.rank);
    if (finished.empty() && blocks_) {
      told.tail.clear();
      FinishBlocks(style, lines, year);
    }
    finished.push_back(told);
  }
  return finished;
}

}  // namespace ncclwatch::analyzer
