// What the control groups of a process tell: how near it is to its limits, and how much it has to wait for memory and
// processors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ncclwatch::stacks {

// Shares of the last ten seconds, in percent: some of the group's tasks waited; all of them did.
struct Pressure {
  double some = 0, full = 0;
};
std::optional<Pressure> ParsePressure(const std::string& text);  // of memory.pressure and its like

struct GroupState {
  std::string memory_group;                              // path below the hierarchy's root, of the tightest limit
  std::optional<std::uint64_t> used_bytes, limit_bytes;  // no limit: none
  std::uint64_t killed = 0;                              // processes that the kernel killed for want of memory, so far
  std::optional<Pressure> memory, processor, disk;       // of its own group, else of the machine
  bool frozen = false;
};
// `root`: of /sys/fs/cgroup, for tests.
GroupState ReadGroups(int pid, const std::string& root = "/sys/fs/cgroup");
// The same from the text of /proc/PID/cgroup.
GroupState GroupsOf(const std::string& text, const std::string& root);

}  // namespace ncclwatch::stacks
