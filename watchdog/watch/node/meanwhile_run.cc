#include "watchdog/watch/node/meanwhile_run.h"

#include <utility>

#include "watchdog/act/thread.h"
#include "watchdog/log/log.h"

namespace ncclwatch::watch {

void MeanwhileRun::Begin(std::vector<act::LateTarget> targets, std::int64_t limit_ms) {
  act::MeanwhileRequest request;
  request.command = context_.command;
  request.directory = context_.directory;
  request.targets = std::move(targets);
  request.limit_ms = limit_ms;
  request.environment = *environment_;
  busy_->store(true, std::memory_order_relaxed);
  const bool started = act::StartThread(act::kStacksThread, [busy = busy_, request = std::move(request)] {
    const std::string complaint = act::SampleMeanwhile(request);
    if (!complaint.empty()) log::Info("what a straggler does meanwhile is not known: {}", complaint);
    busy->store(false, std::memory_order_release);
  });
  if (!started) busy_->store(false, std::memory_order_relaxed);
}

}  // namespace ncclwatch::watch
