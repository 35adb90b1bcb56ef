#include "analyzer/run/idle_launcher.h"

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "analyzer/console/units.h"
#include "watchdog/act/end_job.h"
#include "watchdog/act/system_log.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::int64_t kPatience = 5 * kSecond;
constexpr std::int64_t kGrace = 2 * kSecond;  // from SIGTERM to SIGKILL

bool IsOfMpi(std::string_view command) {
  const std::string_view name = command.substr(command.rfind('/') + 1);
  return name.starts_with("mpirun") || name.starts_with("mpiexec") || name.starts_with("orterun");
}

}  // namespace

IdleLauncher::IdleLauncher(const std::string& command, bool ends) : applies_(ends && IsOfMpi(command)) {}

void IdleLauncher::Look(pid_t launcher, const Deaths& deaths) {
  if (!applies_) return;
  if (deaths.AnyAlive() || !deaths.ExitSeen(act::kEndedByUs)) {
    alone_since_ns_ = 0;
    return;
  }
  const std::int64_t now = MonotonicNow();
  if (alone_since_ns_ == 0) alone_since_ns_ = now;
  if (now - alone_since_ns_ > kPatience + kGrace) {
    kill(launcher, SIGKILL);
  } else if (now - alone_since_ns_ > kPatience && !asked_) {
    asked_ = true;
    std::fputs("[ncclwatch] all ranks of the job have ended, and its launcher has not: ending it\n", stderr);
    act::TellSystemLog("ncclwatch run ends process " + std::to_string(launcher) +
                       ", a launcher that outlived its ranks (NCCLWATCH_ON_FAULT=abort)");
    kill(launcher, SIGTERM);
  }
}

}  // namespace ncclwatch::analyzer
