// What the leader has looked at once it suspects stragglers: the separate program samples them while the others wait
// for them, beside the heartbeat, and leaves what it saw in the run directory (reader/beside/meanwhile.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "watchdog/act/stacks.h"
#include "watchdog/watch/base/context.h"

namespace ncclwatch::watch {

class MeanwhileRun {
 public:
  // environment: outlives this.
  MeanwhileRun(const Context& context, const std::vector<std::string>* environment)
      : context_(context), environment_(environment), busy_(std::make_shared<std::atomic<bool>>(false)) {}

  // Not while it is busy.
  void Begin(std::vector<act::LateTarget> targets, std::int64_t limit_ms);
  bool Busy() const { return busy_->load(std::memory_order_acquire); }

 private:
  const Context& context_;
  const std::vector<std::string>* environment_;
  std::shared_ptr<std::atomic<bool>> busy_;  // shared with the thread
};

}  // namespace ncclwatch::watch
