// A call as a line: JSON, or comma-separated values (RFC 4180) whose columns are the keys of the JSON, and duration_ns.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/node_hash_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/files/byte_buffer.h"
#include "analyzer/trace/facts.h"
#include "analyzer/trace/sites.h"

namespace ncclwatch::analyzer {

enum class LineForm { kCsv, kJson };

std::string CsvHeading();

// "2026-01-01T00:00:12.400000Z" of many instants close to one another.
class UtcMicros {
 public:
  static constexpr std::size_t kMillis = sizeof "2026-01-01T00:00:12.400" - 1;
  std::string_view Of(std::int64_t realtime_ns);  // until the next one

 private:
  std::int64_t second_ = INT64_MIN;
  char text_[sizeof "2026-01-01T00:00:12.400000Z"] = {};
};

// Of one thread: it remembers the texts that come again and again.
class LineWriter {
 public:
  explicit LineWriter(LineForm form) : form_(form) {}
  void Append(const Facts& facts, std::string_view site, ByteBuffer* out);  // ends with a newline
  // What Append() takes for the site of a call; null: it has none.
  std::string SiteCells(const Site* site) const;

 private:
  // Of a call, as they stand in its line.
  struct Texts {
    std::string_view host, label;
    std::string op, dtype, reduction;
    std::string_view way;  // empty: its kernel was not timed
    std::string result;
    std::string_view payload;  // empty: not known
    std::string_view site, flags, communicator_flags;

    std::size_t size() const {
      return host.size() + label.size() + op.size() + dtype.size() + reduction.size() + way.size() + result.size() +
             payload.size() + site.size() + flags.size() + communicator_flags.size();
    }
  };

  template <typename Cells>
  void Put(const Facts& facts, const Texts& texts, Cells cells);
  std::string Quoted(std::string_view text) const;
  std::string_view Known(const std::string& text);
  using NamesOf = std::vector<std::string> (*)(std::uint32_t flags);
  struct FlagsCell {
    std::optional<std::uint32_t> flags;
    std::string text;
  };
  std::string_view Flags(std::uint32_t flags, NamesOf names, FlagsCell* last) const;
  std::string_view WayCells(const format::KernelTime& kernel);  // what of it comes behind the duration

  const LineForm form_;
  UtcMicros clock_;
  absl::node_hash_map<std::string, std::string> known_;  // by text; several are looked at together
  FlagsCell flags_cell_, communicator_flags_cell_;
  absl::flat_hash_map<std::uint64_t, std::string> ways_;  // by clock, algorithm, protocol, channels
};

}  // namespace ncclwatch::analyzer
