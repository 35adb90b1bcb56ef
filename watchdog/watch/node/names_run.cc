#include "watchdog/watch/node/names_run.h"

#include <algorithm>
#include <utility>

#include "core/reader/load.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/act/stacks.h"
#include "watchdog/act/thread.h"
#include "watchdog/log/log.h"

namespace ncclwatch::watch {
namespace {

using reader::Load;

constexpr std::int64_t kLookEvery_ns = 100 * kMs;
constexpr std::int64_t kSettled_ns = 200 * kMs;  // a program makes several communicators, one after the other
constexpr std::int64_t kFirstPause_ns = kSecond, kMostPause_ns = 60 * kSecond;
constexpr std::int64_t kVerdictWaitsForNames_ns = 500 * kMs;
constexpr int kMostTimes = 3;  // a group gets its name after its communicator; and nothing tells of groups without one

bool IsUnnamed(const format::Communicator& entry) {
  return entry.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(format::CommunicatorState::kReady) &&
         Load(entry.label[0]) == '\0' && (Load(entry.flags) & format::kCommMpi) == 0;
}

// Another number for other communicators, 0 if all have names.
std::uint64_t UnnamedIn(const reader::MappedBox& box) {
  std::uint64_t which = 0;
  for (std::uint32_t i = 0; i < box.communicators(); ++i)
    if (const format::Communicator& entry = box.communicator(i); IsUnnamed(entry))
      which = format::Mix(which, Load(entry.id) + i + 1);
  return which;
}

}  // namespace

void NamesRun::LookIfDue(const NodeProcesses& processes, std::int64_t now_ns, bool wrong) {
  if (now_ns - looked_ns_ < kLookEvery_ns || context_.command.empty() || busy_->load(std::memory_order_acquire)) return;
  looked_ns_ = now_ns;
  std::uint64_t which = 0;
  std::vector<std::string> boxes;
  for (const Member& member : processes.members()) {
    const std::uint64_t unnamed = member.near && !member.gone ? UnnamedIn(*member.box) : 0;
    if (unnamed == 0) continue;
    which = format::Mix(which, unnamed + member.start_time);
    boxes.push_back(member.box->path().substr(member.box->path().rfind('/') + 1));
  }
  if (which != std::exchange(seen_, which)) came_ns_ = now_ns;
  if (boxes.empty() || (which == read_ && times_ == kMostTimes)) return;
  const bool at_once = wrong && which != read_;
  if (!at_once && (now_ns - came_ns_ < kSettled_ns || now_ns - began_ns_ < pause_ns_)) return;
  times_ = std::exchange(read_, which) == which ? times_ + 1 : 1;
  Begin(std::move(boxes), now_ns);
}

void NamesRun::Begin(std::vector<std::string> boxes, std::int64_t now_ns) {
  began_ns_ = now_ns;
  pause_ns_ = std::min(std::max(2 * pause_ns_, kFirstPause_ns), kMostPause_ns);
  busy_->store(true, std::memory_order_relaxed);
  const bool started =
      act::StartThread(act::kStacksThread, [busy = busy_, command = context_.command, directory = context_.directory,
                                            boxes = std::move(boxes), environment = *environment_] {
        const std::string complaint = act::NameCommunicators(command, directory, boxes, environment);
        if (!complaint.empty()) log::Debug("communicators have no names: {}", complaint);
        busy->store(false, std::memory_order_release);
      });
  if (!started) busy_->store(false, std::memory_order_relaxed);
}

bool NamesRun::Busy(std::int64_t now_ns) const {
  return now_ns - began_ns_ < kVerdictWaitsForNames_ns && busy_->load(std::memory_order_acquire);
}

}  // namespace ncclwatch::watch
