// Does a process live, with nothing under way that will end it?
#pragma once

#include <cstdint>
#include <string_view>

namespace ncclwatch::analyzer {

// False too where that cannot be told.
bool IsUnharmed(std::int32_t pid, std::uint64_t start_time);
// The same of the content of its /proc/PID/stat.
bool TellsOfUnharmed(std::string_view stat, std::uint64_t start_time);

}  // namespace ncclwatch::analyzer
