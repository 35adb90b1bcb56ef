// The lines of one file by process: when each of them wrote first and last, and its last words.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/triage/prefix.h"
#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

// Stream 0 holds the lines without a prefix. Not thread-safe.
class Streams {
 public:
  Streams() : streams_(1) {}

  // Of a file of one process: text that ends with a line.
  void AddBlock(std::string_view block);
  // Of a file of several: a line and what its prefix says. Returns its stream.
  std::size_t Add(const LinePrefix& prefix, std::string_view line, std::uint64_t number);

  // Whose the stream's lines are; `rest` is empty.
  LinePrefix PrefixOf(std::size_t stream) const;

  // `lines`: of the file. Adds what prefixes and lines say of pids.
  std::vector<Stream> Finish(const PrefixStyle& style, std::uint64_t lines, int year,
                             std::map<int, int>* ranks_of_pids);

 private:
  struct Line {
    std::uint64_t number = 0;
    std::string text;  // the beginning, with its prefix
    std::size_t prefix = 0;
  };
  struct Open {
    Stream told;
    std::string first;  // the first line
    std::vector<Line> ring;
    std::size_t next = 0;  // of the ring
  };
  using Key = std::tuple<int, int, int, std::string>;

  std::size_t Find(const LinePrefix& prefix);
  const Line& Back(const Open& open, std::size_t back) const;
  void FinishBlocks(const PrefixStyle& style, std::uint64_t lines, int year);

  std::vector<Open> streams_;
  std::map<Key, std::size_t> by_key_;
  std::map<std::pair<int, int>, std::size_t> by_process_;  // pid and local rank, once its rank was seen
  std::string head_, tail_;                                // of a file of one process
  bool blocks_ = false;
};

}  // namespace ncclwatch::analyzer
