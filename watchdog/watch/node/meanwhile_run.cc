#include "watchdog/watch/node/meanwhile_run.h"

#include <utility>

#include "watchdog/act/thread.h"
#include "watchdog/log/log.h"

namespace ncclwatch::watch {

void MeanwhileRun::Begin(std::vector<act::LateTarget> targets, std::int64_t limit_ms) {
  act::MeanwhileWish wish;
  wish.command = context_.command;
  wish.directory = context_.directory;
  wish.targets = std::move(targets);
  wish.limit_ms = limit_ms;
  wish.environment = *environment_;
  busy_->store(true, std::memory_order_relaxed);
  const bool started = act::StartThread(act::kStacksThread, [busy = busy_, wish = std::move(wish)] {
    const std::string complaint = act::SampleMeanwhile(wish);
    if (!complaint.empty()) log::Info("what a straggler does meanwhile is not known: {}", complaint);
    busy->store(false, std::memory_order_release);
  });
  if (!started) busy_->store(false, std::memory_order_relaxed);
}

}  // namespace ncclwatch::watch
