#include "shim/process/abort.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "ncclwatch/nanoseconds.h"
#include "shim/base/clock.h"
#include "shim/base/process.h"
#include "shim/black_box/table.h"
#include "shim/resolve/libraries.h"
#include "watchdog/act/thread.h"

namespace ncclwatch::shim {
namespace {

using format::CommunicatorState;
using functions::Function;

constexpr std::int64_t kQuestion_ns =
    50 * kMs;                                  // questions (ncclCommCount, ...) are not recorded and take microseconds
constexpr std::int64_t kStuck_ns = 300 * kMs;  // inside for so long: stuck there
constexpr std::int64_t kAwaitYoung_ns = 1000 * kMs;
constexpr int kGroupedSince = 22200;  // version of NCCL from which on aborts can be grouped

std::atomic<const char*> why_ended{"this job is being ended by ncclwatch (NCCLWATCH_ON_FAULT=abort)"};

struct Taken {
  std::uint32_t index;
  std::uint32_t library;
  ncclComm_t comm;
};

void Sleep(std::int64_t ns) {
  const timespec pause{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&pause, nullptr);
}

// After this every thread has either seen what was stored before, or is seen with all that it stored before looking.
// Where the kernel lacks it, any processor has emptied its store buffer in the time that is slept next.
void ReachAllThreads() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

double NsPerTick(const format::Clock& clock) {
  if (clock.source == static_cast<std::uint32_t>(format::ClockSource::kMonotonic)) return 1;
  const std::uint32_t anchored = clock.anchored.load(std::memory_order_acquire);
  return anchored == 0 ? 1 : clock.anchors[(anchored - 1) % format::kClockAnchors].ns_per_tick;
}

// Some call has been entered lately and has not come back: it may not even have reached NCCL.
bool AnyYoungCall(const Box& box) {
  const std::uint64_t now = clock::Ticks();
  const double ns_per_tick = NsPerTick(box.header->clock);
  const std::uint64_t head = box.header->head.load(std::memory_order_acquire);
  for (std::uint64_t i = 1; i <= std::min(head, box.mask + 1); ++i) {
    const format::Record& record = box.RecordAt(head - i);
    if (record.commit.load(std::memory_order_acquire) != head - i + 1) continue;
    if (record.returned.load(std::memory_order_acquire) != 0) continue;
    const std::uint64_t entered = record.entered.load(std::memory_order_relaxed);
    if (entered >= now || static_cast<double>(now - entered) * ns_per_tick < kStuck_ns) return true;
  }
  return false;
}

// The lock is the one under which the application's own ends are taken out of the same table (BeginLifecycle).
std::vector<Taken> TakeHandles(Box& box) {
  std::vector<Taken> taken;
  taken.reserve(box.capacity);  // not under the lock
  const WriterLock lock(box);
  if (!lock.held()) return taken;
  const std::uint32_t used = box.header->communicators_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < std::min(used, box.capacity); ++i) {
    format::Communicator& entry = box.communicators[i];
    const std::uint64_t handle = std::atomic_ref(entry.handle).load(std::memory_order_acquire);
    if (StateOf(entry) != CommunicatorState::kReady || handle == 0 || box.handles.Find(handle) != i) continue;
    if (!box.ended_by_us.Insert(handle, i)) continue;
    taken.push_back({i, entry.library, reinterpret_cast<ncclComm_t>(handle)});
  }
  return taken;
}

template <class F>
F* Real(std::uint32_t library, Function function) {
  return reinterpret_cast<F*>(resolve::Real(library, function));
}

// One after the other they may wait for one another's ranks: each in a thread of its own.
void AbortSideBySide(const std::vector<ncclComm_t>& comms, decltype(ncclCommAbort)* abort) {
  const auto left = std::make_shared<std::atomic<std::size_t>>(comms.size());
  for (ncclComm_t comm : comms) {
    const bool started = act::StartThread("ncclwatch-abort", [comm, abort, left] {
      abort(comm);
      left->fetch_sub(1, std::memory_order_acq_rel);
    });
    if (!started) left->fetch_sub(1, std::memory_order_acq_rel);
  }
  while (left->load(std::memory_order_acquire) != 0) Sleep(kMs);
}

void AbortAll(std::uint32_t library, const std::vector<ncclComm_t>& comms) {
  auto* abort = Real<decltype(ncclCommAbort)>(library, Function::ncclCommAbort);
  auto* start = Real<decltype(ncclGroupStart)>(library, Function::ncclGroupStart);
  auto* end = Real<decltype(ncclGroupEnd)>(library, Function::ncclGroupEnd);
  int version = 0;
  if (!abort) return;
  if (comms.size() == 1) {
    abort(comms.front());
  } else if (start && end && resolve::Version(library, &version) && version >= kGroupedSince) {
    start();
    for (ncclComm_t comm : comms) abort(comm);
    end();
  } else {
    AbortSideBySide(comms, abort);
  }
}

}  // namespace

const char* WhyEnded() { return why_ended.load(std::memory_order_acquire); }

ncclResult_t CutShort(std::uint32_t library) {
  constexpr int kRemoteErrorSince = 21300;
  constexpr auto kRemoteError = static_cast<ncclResult_t>(6);  // ncclRemoteError, which older headers lack
  int version = 0;
  return resolve::Version(library, &version) && version < kRemoteErrorSince ? ncclSystemError : kRemoteError;
}

int AbortCommunicators(const char* why) {
  static char text[512];
  Box* box = CurrentBox();
  if (box && !Refusing(*box) && why && *why) {
    std::snprintf(text, sizeof text, "%s", why);
    why_ended.store(text, std::memory_order_release);
  }
  if (!box || (box->detours.fetch_or(kRefuses) & kRefuses) != 0) return 0;
  ReachAllThreads();
  const std::vector<Taken> taken = TakeHandles(*box);
  Sleep(kQuestion_ns);
  const std::int64_t until_ns = clock::Nanoseconds(CLOCK_MONOTONIC) + kAwaitYoung_ns;
  while (AnyYoungCall(*box) && clock::Nanoseconds(CLOCK_MONOTONIC) < until_ns) Sleep(10 * kMs);
  for (const Taken& one : taken) NoteAbort(box->communicators[one.index], CommunicatorState::kAborted);
  for (std::uint32_t library = 0; library < resolve::kLibraries; ++library) {
    std::vector<ncclComm_t> comms;
    for (const Taken& one : taken)
      if (one.library == library) comms.push_back(one.comm);
    if (!comms.empty()) AbortAll(library, comms);
  }
  return static_cast<int>(taken.size());
}

}  // namespace ncclwatch::shim
