#include "shim/profiler/wanted.h"

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/clock.h"
#include "shim/profiler/cost.h"
#include "shim/profiler/rate.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim::profiler {
namespace {

constexpr std::uint32_t kNeverTimed = format::kEmpty | format::kOneRank;  // flags of such calls

// The trial of the interface's cost. One thread at a time: another one goes by what holds at the moment.
struct Trial {
  std::atomic_flag busy;
  std::atomic<bool> may_ask{true};
  std::atomic<bool> over{false};
  // By whose calls windows are counted; another one takes its place when it has made no call while others made so many.
  std::uint32_t index = format::kNoCommunicator;
  std::uint64_t others = 0;
  CostTrial windows;
};
constinit Trial trial;
constinit Rate rate;
std::int64_t Now() { return clock::Nanoseconds(CLOCK_MONOTONIC); }
constexpr std::uint64_t kAnotherAfter = 4096;

void Decide(Box& box, const CostEstimate& estimate) {
  const bool cheap = estimate.verdict() == CostEstimate::Verdict::kCheap;
  trial.may_ask.store(cheap, std::memory_order_relaxed);
  trial.over.store(true, std::memory_order_relaxed);
  if (!cheap) box.detours.fetch_and(static_cast<std::uint8_t>(~kTimesKernels), std::memory_order_relaxed);
  // All ranks come to about the same.
  if (!cheap && box.header->identity.rank <= 0)
    log::host::Warn("NCCL's profiler interface adds {:.1f} % to the time of the job: kernels are timed no more",
                    100 * estimate.cost());
}

// Whether NCCL may be asked for events of this call, as far as their cost is concerned. NCCLWATCH_PROFILER=1/N means
// what it says.
bool MayAsk(Box& box, const Call& call) {
  if (box.times_beside_others || trial.over.load(std::memory_order_relaxed))
    return trial.may_ask.load(std::memory_order_relaxed);
  if (call.family != functions::Family::kCollective || call.slot == kNoSlot || call.index == format::kNoCommunicator ||
      (call.flags & kNeverTimed) != 0 || trial.busy.test_and_set(std::memory_order_acquire))
    return trial.may_ask.load(std::memory_order_relaxed);
  if (call.index != trial.index && ++trial.others > kAnotherAfter) trial.index = call.index;
  if (trial.index == format::kNoCommunicator) trial.index = call.index;
  if (call.index == trial.index) {
    trial.others = 0;
    const std::uint64_t id = box.communicators[call.index].id;
    trial.may_ask.store(trial.windows.Enter(id, call.position, Now()), std::memory_order_relaxed);
    if (trial.windows.estimate().verdict() != CostEstimate::Verdict::kOpen) Decide(box, trial.windows.estimate());
  }
  trial.busy.clear(std::memory_order_release);
  return trial.may_ask.load(std::memory_order_relaxed);
}

}  // namespace

bool TooCostly() {
  return trial.over.load(std::memory_order_relaxed) && !trial.may_ask.load(std::memory_order_relaxed);
}

// By a hash of the position: what comes back in every step is not left out for ever. And what does not come often.
bool IsWanted(Box& box, const Call& call) {
  constexpr std::uint64_t kSalt = 0x6b65726e656c73;
  const bool may_ask = MayAsk(box, call);
  if (box.times_every == 0 || call.slot == kNoSlot || call.index == format::kNoCommunicator ||
      (call.flags & kNeverTimed) != 0)
    return false;
  // Too few of them to disturb the trial.
  if (call.fingerprint != 0 && !TooCostly() &&
      box.privates[call.index].shapes.IsFirst(call.generation, call.position, call.fingerprint))
    return true;
  const std::uint32_t every = box.times_beside_others ? box.times_every : rate.Every(box.times_every, Now);
  return may_ask && format::Mix(kSalt, call.position) % every == 0;
}

}  // namespace ncclwatch::shim::profiler
