// Calls as comma-separated values (RFC 4180): the columns are the keys of a `trace --json` line, and duration_ns.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>

#include "analyzer/trace/facts.h"
#include "analyzer/trace/sites.h"

namespace ncclwatch::analyzer {

std::string CsvHeading();

// "2026-01-01T00:00:12.400000Z" of many instants close to one another.
class UtcMicros {
 public:
  void Append(std::int64_t realtime_ns, std::string* text);

 private:
  std::int64_t second_ = -1;
  char digits_[32] = {};  // of the second
};

class CsvLines {
 public:
  explicit CsvLines(Sites* sites) : sites_(*sites) {}
  void Append(const MergedCall& merged, const Facts& facts, std::string* out);  // ends with a newline

 private:
  const std::string& Quoted(const std::string& text);

  Sites& sites_;
  UtcMicros clock_;
  absl::flat_hash_map<std::string, std::string> quoted_;  // the few texts that come again and again
};

}  // namespace ncclwatch::analyzer
