#include "analyzer/run/idle_launcher.h"

#include <csignal>
#include <string_view>

#include "analyzer/console/print.h"
#include "watchdog/act/end_job.h"
#include "watchdog/act/system_log.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::chrono::seconds kIdlePatience(5);
constexpr std::chrono::seconds kGrace(2);  // from SIGTERM to SIGKILL

bool IsOfMpi(std::string_view command) {
  const std::string_view name = command.substr(command.rfind('/') + 1);
  return name.starts_with("mpirun") || name.starts_with("mpiexec") || name.starts_with("orterun");
}

}  // namespace

IdleLauncher::IdleLauncher(const std::string& command, bool ends) : applies_(ends && IsOfMpi(command)) {}

void IdleLauncher::Look(pid_t launcher, const Deaths& deaths) {
  if (!applies_) return;
  if (deaths.AnyAlive() || !deaths.ExitSeen(act::kEndedByUs)) {
    alone_since_.reset();
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!alone_since_) alone_since_ = now;
  if (now - *alone_since_ > kIdlePatience + kGrace) {
    kill(launcher, SIGKILL);
  } else if (now - *alone_since_ > kIdlePatience && !asked_) {
    asked_ = true;
    Note("all ranks of the job have ended, and its launcher has not: ending it");
    act::TellSystemLog(fmt::format(
        "ncclwatch run ends process {}, a launcher that outlived its ranks (NCCLWATCH_ON_FAULT=abort)", launcher));
    kill(launcher, SIGTERM);
  }
}

}  // namespace ncclwatch::analyzer
