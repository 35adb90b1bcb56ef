// Lengths of time in nanoseconds, the unit of all instants that are recorded.
#pragma once

#include <cstdint>

namespace ncclwatch {

inline constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

constexpr double InSeconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace ncclwatch
