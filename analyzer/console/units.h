// Times, ages and counts as a person writes and reads them.
#pragma once

#include <absl/strings/numbers.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer {

// Digits alone, of a number that the type holds.
template <typename Integer>
bool ParseNumber(const std::string& text, Integer* number) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos && absl::SimpleAtoi(text, number);
}

// "0,2,4-7"; none if it is no such list.
std::optional<std::vector<int>> ParseRanks(const std::string& text);

// "90", "90s", "15m", "36h", "7d", "2w", "1.5h".
std::optional<absl::Duration> ParseDuration(std::string_view text);

// "4096", "64K", "10G", "4MiB": powers of 1024.
std::optional<std::uint64_t> ParseBytes(std::string_view text);
std::string BytesText(std::uint64_t bytes);  // "96 B", "4 KiB", "1.5 MiB"

std::optional<double> ParseShare(std::string_view text);  // "5%", "0.05"; none below 0

std::string DurationText(absl::Duration duration);  // "850 ns", "12.4 us", "3.1 ms", "12.4 s", "3m20s", "5h10m"
std::string AgeText(absl::Duration age);            // "12 s", "3 min", "5 h", "2 d"
std::string ClockText(absl::Time time);             // local time of day, "14:03:07.123456"

std::int64_t MonotonicNow();  // CLOCK_MONOTONIC in nanoseconds, as black boxes have it

}  // namespace ncclwatch::analyzer
