// What an administrator wants to find in the system's log: aborts, kills, hooks, hubs.
#pragma once

#include <string>
#include <string_view>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::act {

inline constexpr char kSystemLog[] = "/dev/log";

// One line of facility `daemon`, level `notice`, by a socket of our own that is closed again: openlog(3) belongs to the
// host. Never waits; where nobody listens, nothing happens.
void TellSystemLog(std::string_view text, const char* path = kSystemLog);

// "job J attempt 1, rank 3, uid 1000: " and what it did.
void TellSystemLog(const format::Identity& who, std::string_view what);

}  // namespace ncclwatch::act
