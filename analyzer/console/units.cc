#include "analyzer/console/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace ncclwatch::analyzer {
namespace {

std::int64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

std::optional<std::int64_t> ParseDuration(std::string_view text) {
  double amount = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), amount, std::chars_format::fixed);
  if (error != std::errc() || !(amount >= 0)) return std::nullopt;
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  double seconds = 0;
  if (unit.empty() || unit == "s")
    seconds = 1;
  else if (unit == "ms")
    seconds = 1e-3;
  else if (unit == "m" || unit == "min")
    seconds = 60;
  else if (unit == "h")
    seconds = 3600;
  else if (unit == "d")
    seconds = 86400;
  else if (unit == "w")
    seconds = 7 * 86400;
  else
    return std::nullopt;
  const double ns = amount * seconds * 1e9;
  if (ns > 9e18) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(ns));
}

std::string DurationText(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1000) return Format("%d ns", static_cast<int>(ns));
  if (ns < 1'000'000) return Format("%.1f us", value / 1e3);
  if (ns < kSecond) return Format("%.1f ms", value / 1e6);
  if (ns < 120 * kSecond) return Format("%.1f s", value / 1e9);
  const std::int64_t seconds = ns / kSecond;
  if (seconds < 3600) return Format("%dm%02ds", static_cast<int>(seconds / 60), static_cast<int>(seconds % 60));
  return Format("%ldh%02dm", static_cast<long>(seconds / 3600), static_cast<int>(seconds / 60 % 60));
}

std::string AgeText(std::int64_t ns) {
  const long seconds = static_cast<long>(ns < 0 ? 0 : ns / kSecond);
  if (seconds < 120) return Format("%ld s", seconds);
  if (seconds < 120L * 60) return Format("%ld min", seconds / 60);
  if (seconds < 48L * 3600) return Format("%ld h", seconds / 3600);
  return Format("%ld d", seconds / 86400);
}

std::string ClockText(std::int64_t realtime_ns) {
  const std::time_t seconds = realtime_ns / kSecond;
  std::tm local{};
  localtime_r(&seconds, &local);
  return Format("%02d:%02d:%02d.%06d", local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<int>(realtime_ns % kSecond / 1000));
}

std::string IsoText(std::int64_t realtime_ns) {
  const std::time_t seconds = realtime_ns / kSecond;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return Format("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                utc.tm_min, utc.tm_sec, static_cast<int>(realtime_ns % kSecond / 1'000'000));
}

std::string Hex(std::uint64_t value) { return Format("0x%llx", static_cast<unsigned long long>(value)); }
std::string Id(std::uint64_t id) { return Format("%016llx", static_cast<unsigned long long>(id)); }

std::int64_t RealtimeNow() { return Now(CLOCK_REALTIME); }
std::int64_t MonotonicNow() { return Now(CLOCK_MONOTONIC); }

}  // namespace ncclwatch::analyzer
