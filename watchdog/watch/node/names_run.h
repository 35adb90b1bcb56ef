// Names of communicators that only the program's framework knows, torch's process groups: the separate program reads
// them from outside, beside the heartbeat, and writes them into the boxes (`ncclwatch stacks --names`).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "watchdog/watch/base/context.h"
#include "watchdog/watch/node/node_processes.h"

namespace ncclwatch::watch {

class NamesRun {
 public:
  // environment: outlives this.
  NamesRun(const Context& context, const std::vector<std::string>* environment)
      : context_(context), environment_(environment), busy_(std::make_shared<std::atomic<bool>>(false)) {}

  // Soon after communicators without a name have come, or at once if something is wrong; then ever more seldom.
  void LookIfDue(const NodeProcesses& processes, std::int64_t now_ns, bool wrong);
  // Names are being read that a verdict should have; it does not wait for long.
  bool Busy(std::int64_t now_ns) const;

 private:
  void Begin(std::vector<std::string> boxes, std::int64_t now_ns);

  const Context& context_;
  const std::vector<std::string>* environment_;
  std::shared_ptr<std::atomic<bool>> busy_;  // shared with the thread
  std::uint64_t seen_ = 0, read_ = 0;        // which communicators had no name: lately, and at the last reading
  int times_ = 0;                            // these were read
  std::int64_t came_ns_ = 0, looked_ns_ = 0, began_ns_ = 0, pause_ns_ = 0;
};

}  // namespace ncclwatch::watch
