#include "core/rules/not_running.h"

#include "core/model/text.h"

namespace ncclwatch::diagnosis {
namespace {

using format::Observed;

// Written every 50 ms or faster: as stale as this the watchdog thread does not run.
constexpr std::int64_t kStaleNs = 2'000'000'000;

bool Stale(const View& view, const Process& process) {
  return process.box->heartbeats > 0 && view.now_ns - process.At(process.box->heartbeat_ns) > kStaleNs;
}

}  // namespace

std::optional<StopReason> NotRunning(const View& view, const Process& process) {
  switch (process.outcome.what) {
    case Observed::kStopped:
      return StopReason{Kind::kFrozenProcess, Certainty::kLikely, "is stopped by a signal (state T)"};
    case Observed::kTraced:
      return StopReason{Kind::kFrozenProcess, Certainty::kSuspected, "is held by a debugger (state t)"};
    case Observed::kFrozen:
      return StopReason{Kind::kFrozenProcess, Certainty::kSuspected, "is held by the cgroup freezer"};
    case Observed::kStuck:
      return StopReason{Kind::kFrozenProcess, Certainty::kLikely,
                        "is stuck in the kernel (state D, uninterruptible sleep)"};
    case Observed::kSilent:
      return StopReason{Kind::kFrozenProcess, Certainty::kSuspected,
                        "could run and does not: its watchdog thread is silent (starved of CPU time?)"};
    case Observed::kHidden:
      return StopReason{Kind::kDeadRank, Certainty::kLikely, "seems gone, but its lock or its process is still there"};
    case Observed::kLost:
      return StopReason{Kind::kDeadRank, Certainty::kLikely,
                        "is on " + process.box->host + ", which has not been heard from for " +
                            Seconds(view.now_ns - process.outcome.last_sign_ns) + ": lost, or cut off from the others"};
    default: break;
  }
  if (!Stale(view, process)) return std::nullopt;
  const std::string silent = "has given no sign of life for " + Seconds(view.now_ns - process.outcome.last_sign_ns);
  if (process.box->state == format::ProcessState::kExiting) {
    return StopReason{Kind::kEarlyExit, Certainty::kLikely, silent + " after it began to exit"};
  }
  if (process.box->state == format::ProcessState::kCrashing) {
    return StopReason{Kind::kDeadRank, Certainty::kLikely, silent + " after a fatal signal"};
  }
  return StopReason{Kind::kFrozenProcess, Certainty::kSuspected, silent};
}

std::vector<std::string> StepsForFrozen(format::Observed what, const std::string& pid) {
  switch (what) {
    case Observed::kStopped:
      return {"`kill -CONT " + pid +
              "` lets it go on; find out who stopped it: job control of a shell, a script, an operator"};
    case Observed::kTraced: return {"detach the debugger: `grep TracerPid /proc/" + pid + "/status` names it"};
    case Observed::kFrozen:
      return {"thaw its control group: cgroup.freeze or freezer.state of /proc/" + pid + "/cgroup"};
    case Observed::kStuck:
      return {"see what it waits for in the kernel: `cat /proc/" + pid +
              "/stack`, `dmesg -T`: a disk, a network file system or the GPU driver that does not answer"};
    default:
      return {"look at its state: `grep State /proc/" + pid + "/status; cat /proc/" + pid + "/wchan`",
              "check whether its host has processor time for it: load, limits of its control group"};
  }
}

}  // namespace ncclwatch::diagnosis
