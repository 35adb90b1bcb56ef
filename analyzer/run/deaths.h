// Watches the processes of a run directory from outside and notes when and how each of them ended: what the leader
// does too, but this observer outlives the job.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/time/time.h>
#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/files/descriptor.h"
#include "analyzer/run/file_close_watcher.h"
#include "core/reader/witness.h"
#include "watchdog/evidence/exit.h"

namespace ncclwatch::analyzer {

class Deaths {
 public:
  // Boxes that were there before `began` are an earlier job's.
  Deaths(const std::string& place, absl::Time began);

  void Scan();  // finds new boxes
  void AddTo(std::vector<pollfd>* polled) const;
  void Look();  // after poll(): notes who has ended
  bool AnyAlive() const;
  bool ExitSeen(int status) const;  // some process ended with it
  // The directories with boxes of this job, in the order in which they appeared.
  const std::vector<std::string>& directories() const { return directories_; }
  reader::Witness Ends(const std::string& directory);  // of the boxes there, in order

 private:
  struct Process {
    std::string box;
    reader::Observation seen;
    Descriptor pidfd;
    bool ended = false;
    int closing = -1;            // as Closings calls it
    std::size_t order = 0;       // not 0: its black box was closed as the so manieth
    std::int64_t closed_ns = 0;  // ... and that was read then
    bool others_lived = false;   // reader::WitnessedEnd
    bool closed_unseen = false;  // it was gone, and its black box still open: another process holds it
    std::string memory_group;
  };
  void Follow(const std::string& box);
  void TakeClosings();
  bool OthersLive() const;
  bool Ordered(const Process& process) const;
  void Learn(Process* process);

  std::string place_;
  absl::Time began_;
  std::vector<std::string> directories_;
  absl::flat_hash_set<std::string> known_;  // boxes
  std::vector<Process> processes_;
  evidence::MemoryKills memory_kills_;
  FileCloseWatcher closings_;
  std::size_t closed_ = 0;
  bool missed_ = false;  // some process ended before it could be followed: no order is whole
};

}  // namespace ncclwatch::analyzer
