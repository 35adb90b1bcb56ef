#include "watchdog/watch/process/orders.h"

#include "core/reader/stacks.h"
#include "watchdog/act/end_job.h"
#include "watchdog/act/files.h"
#include "watchdog/act/stacks.h"
#include "watchdog/act/thread.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

// What the program has read from outside this lately is better than what can be read from inside.
constexpr std::int64_t kFresh_ns = 5'000'000'000;

}  // namespace

void Orders::ApplyCommands(format::Lease& words, bool others_left, std::int64_t now_ns) {
  const std::uint32_t watching = words.switched_off.load(std::memory_order_acquire) == 0;
  if (own_->watching.load(std::memory_order_relaxed) != watching)
    own_->watching.store(watching, std::memory_order_release);
  const std::uint64_t wanted = words.own_stacks_wanted.load(std::memory_order_acquire);
  if (sampled_ && *sampled_ != wanted) WriteSample();
  sampled_ = wanted;  // orders from before this process began are not for it
  if (words.ending.load(std::memory_order_acquire) == 0) return;
  if (ending_.Due(now_ns) && !others_left) act::EndOwnProcess(own_);
}

void Orders::WriteSample() const {
  if (!sample_) return;
  const std::uint32_t pid = own_->identity.pid;
  act::StartThread(act::kStacksThread, [take = sample_, directory = directory_, pid] {
    const std::optional<reader::ProcessStacks> there = reader::ReadProcessStacks(directory, pid);
    if (there && !there->where.empty() && Monotonic() - there->at_ns < kFresh_ns) return;
    const std::string sample = take();
    if (sample.empty() || !directory.MakeFolder(reader::kStacksFolder)) return;
    act::WriteFile(directory, act::SampleOf(static_cast<std::int32_t>(pid)), sample);
  });
}

}  // namespace ncclwatch::watch
