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
  // The same of a file with a line "oom_kill NUMBER".
  void FollowGroup(const std::string& group);
  // Now and then: a kill that nobody here has died of some 10 s later was a stranger's, of the same group or host.
  void Refresh(std::int64_t now_ns);
  // What somebody else has followed for longer.
  void Learn(const MemoryKills& other);
  // Has the count of the group grown lately? Each kill is given to one death only.
  bool TakeKill(const std::string& group);

 private:
  struct Count {
    std::uint64_t before = 0;  // kills up to it are accounted for
    std::uint64_t sampled = 0;
    std::int64_t sampled_ns = 0;
  };
  static std::uint64_t CountOf(const std::string& group);
  std::map<std::string, Count> counts_;
};

}  // namespace ncclwatch::evidence
