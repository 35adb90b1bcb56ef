// How a process that is not our child went: the kernel's word, where it still gives one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ncclwatch::evidence {

struct ExitWord {
  std::uint32_t flags = 0;  // format::ExitFlags
  std::int32_t signal = 0;  // 0: none
  std::int32_t status = 0;  // valid with kExitKnown and signal == 0
};

// From the zombie while there is one, else from the pidfd (may be -1) after it was reaped.
ExitWord ExitOf(std::int32_t pid, std::uint64_t start_time, int pidfd);

// Counts of processes killed for want of memory, per control group, to tell an OOM kill from any other SIGKILL.
class MemoryKills {
 public:
  // Called while the process lives: remembers its group and the group's count so far. Returns the group.
  std::string Follow(std::int32_t pid);
  // Has the count of the group grown since it was last asked? Each kill is given to one death only.
  bool TakeKill(const std::string& group);

 private:
  static std::uint64_t CountOf(const std::string& group);
  std::map<std::string, std::uint64_t> seen_;
};

}  // namespace ncclwatch::evidence
