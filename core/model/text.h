// Small pieces of text that summaries, evidence and renderers share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/finding.h"
#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

std::string RankSet(const std::vector<int>& ascending);        // "0-3,5"; unknown ranks as "?"
std::string Ranks(const std::vector<int>& ascending);          // "rank 2", "ranks 0-3,5", "no rank"
std::string Hex16(std::uint64_t value);                        // 16 digits
std::string Hex(std::uint64_t value);                          // "0x7f.."
std::string Seconds(std::int64_t nanoseconds);                 // "12.4 s", "35 ms"
std::string Bytes(std::uint64_t bytes);                        // "12.0 MiB", "64 bytes"
std::string UtcTime(std::int64_t realtime_ns);                 // "2026-01-01T00:00:12.400Z"
std::string SignalName(int signal);                            // "SIGKILL", "signal 55"
std::string ResultName(std::int32_t result);                   // "success", "invalid_argument", ...
std::string ReductionName(std::uint8_t reduction);             // "sum", "user", ...
std::string Plural(std::size_t count, std::string_view noun);  // "1 rank", "3 ranks"
std::string Join(const std::vector<std::string>& parts, std::string_view separator);
std::string Capital(std::string text);  // first letter in upper case
// "4096 float32"; empty if neither is known.
std::string DataText(std::optional<std::uint64_t> count, const std::optional<std::string>& dtype);
std::string CallText(const CallSummary& call);  // "AllReduce of 4096 float32 (sum)"
// Of a call site's name: "/path/of/module+0x1234", or "/path/of/train.py:24 in train". None of what is neither.
std::optional<SourcePlace> PlaceNamed(const std::string& name, std::int64_t real_ns);
// Of a call site of the box; none: it has no name.
std::optional<SourcePlace> SourceOf(const reader::BoxImage& box, std::uint64_t site);
std::string LineText(const SourcePlace& source);  // "train.cc:212 in Step"
std::vector<int> SortedUnique(std::vector<int> ranks);

// Names for communicators, of which several may have one label.
class CommunicatorNames {
 public:
  void Add(std::uint64_t id, const std::string& label);
  std::string Short(
      std::uint64_t id) const;  // "tp", "tp f735e60c" if others are called so too, "f735e60c" without label
  std::string Long(std::uint64_t id) const;  // in quotes, or the whole identity

 private:
  std::string Name(std::uint64_t id, std::size_t digits, std::string_view quote) const;
  std::map<std::uint64_t, std::string> labels_;
  std::map<std::string, std::size_t> bearers_;
};

}  // namespace ncclwatch::diagnosis
