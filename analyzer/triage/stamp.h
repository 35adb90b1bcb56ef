// The time stamp at the beginning of a log line. Pure, thread-safe.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string_view>

namespace ncclwatch::analyzer {

// The first one within the line's first letters: ISO 8601, "2026-11-26 12:00:03,123", "11/26/2026 12:00:03", glog's
// "E1126 12:00:03.1", vLLM's "ERROR 11-26 12:00:03", "Nov 26 12:00:03", "[Thu Nov 26 12:00:03 2026]". `year` is for
// those that say none; those without a zone are taken as UTC.
std::optional<absl::Time> ParseStamp(std::string_view line, int year);

// The year of the first date in a text that has one: some lines of the same file leave it out.
std::optional<int> YearIn(std::string_view text);

}  // namespace ncclwatch::analyzer
