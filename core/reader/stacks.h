// Where processes stood when somebody looked at their stacks: the heads of the text files in <run directory>/stacks/,
// and the file there that says which of them belong to the standing verdict. Line by line, a keyword first; unknown
// keywords are passed over. Nothing here trusts a byte of the files, and everything is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

inline constexpr char kStacksFolder[] = "stacks";
inline constexpr char kVerdictStacksFile[] = "stacks/verdict.txt";
inline constexpr std::size_t kMostWhere = 6;  // frames of one process that a verdict quotes

inline constexpr std::size_t kMostState = 3;
inline constexpr char kNoHost[] = "?";

// One process, as the head of its file (ncclwatch.stacks/1) tells.
struct ProcessStacks {
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;  // field 22 of /proc/PID/stat
  std::int32_t rank = -1;        // job rank, -1 unknown
  std::string host = kNoHost;
  std::int64_t at_ns = 0;          // CLOCK_MONOTONIC of its node, when they were read
  std::vector<std::string> state;  // what holds the process up, in sentences, most telling first; at most kMostState
  std::vector<std::string> where;  // innermost first, folded; at most kMostWhere
};

// Those of the processes that a verdict quotes (ncclwatch.verdict_stacks/1).
struct VerdictStacks {
  std::int64_t verdict_at_ns = 0;  // LeaderState::verdict_at_ns of the verdict that they belong to
  std::vector<ProcessStacks> processes;
};

// The beginning of a file is enough. None if it is no such file or names no process.
std::optional<ProcessStacks> ParseProcessStacks(std::string_view text);
std::optional<VerdictStacks> ParseVerdictStacks(std::string_view text);
// ParseVerdictStacks gives back what was parsed and formatted once.
std::string Format(const VerdictStacks& stacks);

// Of <directory>/stacks/<pid>.txt.
std::optional<ProcessStacks> ReadProcessStacks(const descriptors::Directory& directory, std::uint32_t pid);
std::optional<VerdictStacks> ReadVerdictStacks(const descriptors::Directory& directory);

}  // namespace ncclwatch::reader
