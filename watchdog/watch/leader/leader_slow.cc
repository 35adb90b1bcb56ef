// What slows a job that goes on. Every leader follows the steps of its node's ranks; who judges the job hears of all.
#include <utility>

#include "core/nodes/steps_code.h"
#include "core/reader/beside/meanwhile.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/leader/leader.h"

namespace ncclwatch::watch {

void Leader::FollowSteps(std::int64_t now_ns) {
  steps_.Poll(now_ns, group_wait_);
  for (std::string& body : nodes::WriteSteps(steps_.Take(now_ns)))
    DiagnosesItself() ? slow_.Hear(body) : job_.TellSteps(std::move(body));
  while (const std::optional<std::string> body = job_.TakeSteps()) slow_.Hear(*body);
  if (const auto findings = job_.TakeSlow()) slow_.TakeWord(*findings, group_wait_, now_ns);
  slow_.Flush();
}

// While nothing stops the job.
void Leader::LookForSlowness(std::int64_t now_ns) {
  if (published_ || round_) return;
  diagnosis::Snapshot snapshot = TakeSnapshot(Monotonic(), /*max_calls=*/0);
  snapshot.meanwhile = reader::ReadMeanwhile(context_.directory);
  snapshot.machines = machines_;
  slow_.Look(now_ns, snapshot, group_wait_, DiagnosesItself(), [this] { BeatInBetween(); });
  if (const auto said = slow_.TakeSaid()) job_.SaySlow(*said);
}

}  // namespace ncclwatch::watch
