// What the Redis nodes say beside what leaders say, and where.
#pragma once

#include <cstdint>

namespace ncclwatch::exchange {

inline constexpr std::uint16_t kPresenceNote = 3, kByeNote = 4, kLeaseNote = 5;
inline constexpr char kHubChannel[] = "hub";  // the lease
inline constexpr char kInChannel[] = "in";    // to the hub
inline constexpr char kAllChannel[] = "all";
inline constexpr char kNodeChannel[] = "n:";  // and the node's name
// Older messages are not believed: somebody may have put them there again.
inline constexpr std::int64_t kMostAge_ms = 30'000;

}  // namespace ncclwatch::exchange
