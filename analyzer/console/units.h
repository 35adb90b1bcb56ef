// Times, ages and counts as a person writes and reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

inline constexpr std::int64_t kSecond = 1'000'000'000;

// "90", "90s", "15m", "36h", "7d", "2w", "1.5h" -> nanoseconds.
std::optional<std::int64_t> ParseDuration(std::string_view text);

std::string DurationText(std::int64_t ns);        // "850 ns", "12.4 us", "3.1 ms", "12.4 s", "3m20s", "5h10m"
std::string AgeText(std::int64_t ns);             // "12 s", "3 min", "5 h", "2 d"
std::string ClockText(std::int64_t realtime_ns);  // local time of day, "14:03:07.123456"
std::string IsoText(std::int64_t realtime_ns);    // "2026-01-01T00:00:00.000Z"
std::string Hex(std::uint64_t value);             // "0x7f.."
std::string Id(std::uint64_t id);                 // 16 hexadecimal digits

std::int64_t RealtimeNow();
std::int64_t MonotonicNow();

}  // namespace ncclwatch::analyzer
