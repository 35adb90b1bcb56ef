// Watches the processes of a run directory from outside and notes when and how each of them ended: what the leader
// does too, but this observer outlives the job.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "watchdog/evidence/exit.h"
#include "watchdog/reader/image.h"

namespace ncclwatch::analyzer {

class Deaths {
 public:
  // Boxes that were there before began_ns (CLOCK_REALTIME) are an earlier job's.
  Deaths(std::string place, std::int64_t began_ns) : place_(std::move(place)), began_ns_(began_ns) {}
  ~Deaths();
  Deaths(const Deaths&) = delete;
  Deaths& operator=(const Deaths&) = delete;

  void Scan();  // finds new boxes
  void AddTo(std::vector<pollfd>* polled) const;
  void Look();  // after poll(): notes who has ended
  bool AnyAlive() const;
  bool ExitSeen(int status) const;  // some process ended with it
  // The directories with boxes of this job, in the order in which they appeared.
  const std::vector<std::string>& directories() const { return directories_; }
  std::vector<reader::Observation> Observations();  // in order of time

 private:
  struct Process {
    std::string box;
    reader::Observation seen;
    int pidfd = -1;
    bool ended = false;
    std::string memory_group;
  };
  void Follow(const std::string& box);
  void Learn(Process* process);

  std::string place_;
  std::int64_t began_ns_;
  std::vector<std::string> directories_;
  std::vector<std::string> known_;  // boxes
  std::vector<Process> processes_;
  evidence::MemoryKills memory_kills_;
};

}  // namespace ncclwatch::analyzer
