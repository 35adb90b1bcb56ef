// Processes of the node that died of a signal: the separate program unwinds what they left behind their boxes, at once
// and beside the heartbeat. Verdicts wait for it, but not for long.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "watchdog/watch/base/context.h"
#include "watchdog/watch/node/node_processes.h"

namespace ncclwatch::watch {

class CrashRun {
 public:
  // environment: outlives this.
  CrashRun(const Context& context, const std::vector<std::string>* environment);

  // Begins with the members that have gone, or are writing their core, and left a sample.
  void Begin(const NodeProcesses& group_wait, std::int64_t now_ns);
  // Frames are being found that a verdict should have.
  bool Busy(std::int64_t now_ns) const;
  // Waits for it, at most so long; after that it is not busy any more.
  void Await(std::int64_t most_ns);

 private:
  bool LeftSample(const Member& member) const;

  const Context& context_;
  const std::vector<std::string>* environment_;
  std::shared_ptr<std::atomic<int>> running_;  // threads; shared with them
  std::set<std::string> begun_;                // names of boxes
  std::int64_t until_ns_ = 0;                  // verdicts wait no longer
};

}  // namespace ncclwatch::watch
