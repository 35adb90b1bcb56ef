#include "analyzer/console/units.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <utility>

namespace ncclwatch::analyzer {

std::optional<std::vector<int>> ParseRanks(const std::string& text) {
  constexpr int kHighestRank = 1 << 20;
  std::vector<int> ranks;
  const std::vector<std::string> items = absl::StrSplit(text, ',');
  for (const std::string& item : items) {
    const std::vector<std::string> ends = absl::StrSplit(item, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!ParseNumber(ends.front(), &first) || !ParseNumber(ends.back(), &last)) return std::nullopt;
    if (first > last || last > kHighestRank) return std::nullopt;
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<absl::Duration> ParseDuration(std::string_view text) {
  const std::pair<std::string_view, absl::Duration> kUnits[] = {
      {"", absl::Seconds(1)},    {"s", absl::Seconds(1)}, {"ms", absl::Milliseconds(1)}, {"m", absl::Minutes(1)},
      {"min", absl::Minutes(1)}, {"h", absl::Hours(1)},   {"d", absl::Hours(24)},        {"w", absl::Hours(7 * 24)}};
  double amount = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), amount, std::chars_format::fixed);
  if (error != std::errc() || !(amount >= 0)) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  for (const auto& [name, length] : kUnits)
    if (const absl::Duration duration = length * amount; name == unit && duration < absl::Nanoseconds(INT64_MAX))
      return duration;
  return std::nullopt;
}

std::optional<std::uint64_t> ParseBytes(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  for (const std::string_view suffix : {"iB", "B"}) {
    if (!unit.ends_with(suffix)) continue;
    unit.remove_suffix(suffix.size());
    break;
  }
  if (unit.size() > 1) return std::nullopt;
  if (!unit.empty()) {
    const std::size_t power = kUnits.find(absl::ascii_toupper(static_cast<unsigned char>(unit.front())));
    if (power == std::string_view::npos) return std::nullopt;
    number *= std::pow(1024.0, static_cast<double>(power + 1));
  }
  if (number >= 1.8e19) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::optional<double> ParseShare(std::string_view text) {
  const bool percent = text.ends_with('%');
  double value = 0;
  if (!absl::SimpleAtod(std::string(text.substr(0, text.size() - (percent ? 1 : 0))), &value) || value < 0)
    return std::nullopt;
  return percent ? value / 100 : value;
}

std::string BytesText(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1024; number /= 1024) ++unit;
  return number == std::floor(number) || unit == 0 ? fmt::format("{:.0f} {}", number, kUnits[unit])
                                                   : fmt::format("{:.1f} {}", number, kUnits[unit]);
}

std::string DurationText(absl::Duration duration) {
  if (duration < absl::Microseconds(1)) return fmt::format("{} ns", absl::ToInt64Nanoseconds(duration));
  if (duration < absl::Milliseconds(1)) return fmt::format("{:.1f} us", absl::ToDoubleMicroseconds(duration));
  if (duration < absl::Seconds(1)) return fmt::format("{:.1f} ms", absl::ToDoubleMilliseconds(duration));
  if (duration < absl::Minutes(2)) return fmt::format("{:.1f} s", absl::ToDoubleSeconds(duration));
  const std::int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

std::string AgeText(absl::Duration age) {
  const std::int64_t seconds = absl::ToInt64Seconds(std::max(age, absl::ZeroDuration()));
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 120 * 60) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

// By the C library: Abseil knows zones by their names alone, and TZ may hold rules instead ("CET-1CEST").
std::string ClockText(absl::Time time) {
  const std::time_t seconds = absl::ToTimeT(time);
  std::tm local{};
  localtime_r(&seconds, &local);
  const std::int64_t microseconds = absl::ToInt64Microseconds(time - absl::FromTimeT(seconds));
  return fmt::format("{:02}:{:02}:{:02}.{:06}", local.tm_hour, local.tm_min, local.tm_sec, microseconds);
}

std::int64_t MonotonicNow() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ncclwatch::analyzer
