#include "watchdog/watch/node/crash_run.h"

#include <sys/stat.h>

#include <ctime>

#include "watchdog/act/stacks.h"
#include "watchdog/act/thread.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kVerdictWaits_ns = 1'000'000'000;
constexpr long kPoll_ns = 2'000'000;

std::string NameOf(const Member& member) {
  const std::string& path = member.box->path();
  return path.substr(path.rfind('/') + 1);
}

// Who writes its core runs no more, and that may take minutes.
bool HasStopped(const Member& member) { return member.gone || member.last == format::Observed::kDumping; }

}  // namespace

CrashRun::CrashRun(const Context& context, const std::vector<std::string>* environment)
    : context_(context), environment_(environment), running_(std::make_shared<std::atomic<int>>(0)) {}

bool CrashRun::LeftSample(const Member& member) const {
  const format::Header& header = member.box->header();
  const bool crashed =
      header.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(format::ProcessState::kCrashing);
  struct stat info {};
  return crashed && context_.directory.Stat(NameOf(member), &info) &&
         static_cast<std::uint64_t>(info.st_size) > header.file_bytes;
}

void CrashRun::Begin(const NodeProcesses& group_wait, std::int64_t now_ns) {
  std::vector<std::string> boxes;
  for (const Member& member : group_wait.members())
    if (HasStopped(member) && !member.own && begun_.insert(NameOf(member)).second && LeftSample(member))
      boxes.push_back(NameOf(member));
  if (boxes.empty()) return;
  if (!Busy(now_ns)) until_ns_ = now_ns + kVerdictWaits_ns;
  running_->fetch_add(1, std::memory_order_relaxed);
  const bool started =
      act::StartThread(act::kStacksThread, [running = running_, command = context_.command,
                                            directory = context_.directory, boxes, environment = *environment_] {
        const std::string complaint = act::UnwindCrashes(command, directory, boxes, environment);
        if (!complaint.empty()) log::Warn("frames of a crash are missing: {}", complaint);
        running->fetch_sub(1, std::memory_order_release);
      });
  if (!started) running_->fetch_sub(1, std::memory_order_relaxed);
}

bool CrashRun::Busy(std::int64_t now_ns) const {
  return now_ns < until_ns_ && running_->load(std::memory_order_acquire) > 0;
}

void CrashRun::Await(std::int64_t most_ns) {
  const std::int64_t until_ns = Monotonic() + most_ns;
  while (Busy(Monotonic()) && Monotonic() < until_ns) {
    const timespec pause{0, kPoll_ns};
    nanosleep(&pause, nullptr);
  }
  until_ns_ = 0;
}

}  // namespace ncclwatch::watch
