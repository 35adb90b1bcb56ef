#include "shim/profiler/events.h"

#include <algorithm>
#include <bit>
#include <ctime>

#include "shim/base/clock.h"
#include "shim/base/process.h"
#include "shim/recorder/settle.h"

namespace ncclwatch::shim::profiler {
namespace {

struct alignas(64) Entry {
  std::atomic<std::uint64_t> number;  // of the event that it belongs to, 0: nobody's; stored last
  std::uint64_t call;                 // number of the first event of its call, which may be this one
  Theirs theirs;
  std::atomic<bool> stopped;

  // Of the first event of a call. One thread of NCCL tells of all channels of a kernel.
  Box* box;
  std::uint64_t slot;
  std::atomic<format::Algorithm> algorithm;
  std::atomic<format::Protocol> protocol;
  std::atomic<std::uint64_t> channels;          // bits of those that have begun
  std::atomic<std::uint32_t> open;              // how many have begun and not ended
  std::atomic<std::uint64_t> begin_ns, end_ns;  // of the first, of the last one

  // Of a channel.
  bool is_channel;
  bool timed;  // by the GPU
  std::atomic<bool> ended;
};

// A kernel ends long before as many further events have begun.
constexpr std::uint64_t kEntries = 4096;
constinit Entry entries[kEntries] = {};
constinit std::atomic<std::uint64_t> last_number{0};

void* HandleOf(std::uint64_t number) { return reinterpret_cast<void*>(number << 1 | 1); }

Entry* EntryOf(std::uint64_t number) {
  Entry& entry = entries[number % kEntries];
  return number != 0 && entry.number.load(std::memory_order_acquire) == number ? &entry : nullptr;
}
Entry* EntryOf(const void* handle) {
  return IsFollowed(handle) ? EntryOf(reinterpret_cast<std::uintptr_t>(handle) >> 1) : nullptr;
}
Entry* CallOf(const void* handle) {
  const Entry* const entry = EntryOf(handle);
  return entry ? EntryOf(entry->call) : nullptr;
}

// The caller fills the rest and stores the number.
Entry& Take(std::uint64_t* number, const Theirs& theirs) {
  *number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  Entry& entry = entries[*number % kEntries];
  entry.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.theirs = theirs;
  entry.stopped.store(false, std::memory_order_relaxed);
  entry.is_channel = false;
  return entry;
}

void* Publish(Entry& entry, std::uint64_t number) {
  entry.number.store(number, std::memory_order_release);
  return HandleOf(number);
}

std::uint64_t At(std::uint64_t timer) {
  return timer != 0 ? timer : static_cast<std::uint64_t>(clock::Nanoseconds(CLOCK_MONOTONIC));
}

void Write(const Entry& call, bool timed) {
  // In a fork child the box is its parent's.
  if (call.box != CurrentBox() || !StillOurs(*call.box, call.slot)) return;
  format::Record& record = call.box->RecordAt(call.slot);
  if (record.commit.load(std::memory_order_acquire) != call.slot + 1) return;
  // Every launch of the graph would add to it.
  if ((std::atomic_ref(record.flags).load(std::memory_order_relaxed) & format::kCaptured) != 0) return;
  const std::uint64_t begin = call.begin_ns.load(std::memory_order_relaxed);
  const std::uint64_t end = call.end_ns.load(std::memory_order_relaxed);
  const format::KernelTime time = {
      .ns = std::max(end, begin) - begin,
      .clock = timed ? format::KernelClock::kGpu : format::KernelClock::kProxy,
      .algorithm = call.algorithm.load(std::memory_order_relaxed),
      .protocol = call.protocol.load(std::memory_order_relaxed),
      .channels = static_cast<std::uint8_t>(std::popcount(call.channels.load(std::memory_order_relaxed)))};
  record.kernel.store(format::Pack(time), std::memory_order_relaxed);
}

}  // namespace

void* FollowCall(Box& box, std::uint64_t slot, bool has_kernels, const Theirs& theirs) {
  if (has_kernels && StillOurs(box, slot))
    std::atomic_ref(box.RecordAt(slot).flags).fetch_or(format::kTimed, std::memory_order_relaxed);
  std::uint64_t number = 0;
  Entry& entry = Take(&number, theirs);
  entry.call = number;
  entry.box = &box;
  entry.slot = slot;
  entry.algorithm.store(format::Algorithm::kUnknown, std::memory_order_relaxed);
  entry.protocol.store(format::Protocol::kUnknown, std::memory_order_relaxed);
  entry.channels.store(0, std::memory_order_relaxed);
  entry.open.store(0, std::memory_order_relaxed);
  entry.end_ns.store(0, std::memory_order_relaxed);
  return Publish(entry, number);
}

void* FollowPart(const void* handle, const Theirs& theirs) {
  const Entry* const call = CallOf(handle);
  if (!call) return nullptr;
  if (!theirs.handle && !call->theirs.handle) return HandleOf(call->number.load(std::memory_order_relaxed));
  std::uint64_t number = 0;
  Entry& entry = Take(&number, theirs);
  entry.call = call->number.load(std::memory_order_relaxed);
  return Publish(entry, number);
}

void NoteWay(const void* handle, format::Algorithm algorithm, format::Protocol protocol) {
  Entry* const call = CallOf(handle);
  if (!call) return;
  call->algorithm.store(algorithm, std::memory_order_relaxed);
  call->protocol.store(protocol, std::memory_order_relaxed);
}

void* FollowChannel(const void* handle, std::uint8_t channel, std::uint64_t timer, const Theirs& theirs) {
  Entry* const call = CallOf(handle);
  if (!call) return nullptr;
  const std::uint64_t now = At(timer);
  const std::uint64_t before = call->channels.load(std::memory_order_relaxed);
  if (before == 0 || now < call->begin_ns.load(std::memory_order_relaxed))
    call->begin_ns.store(now, std::memory_order_relaxed);
  call->channels.store(before | std::uint64_t{1} << (channel % 64), std::memory_order_relaxed);
  call->open.fetch_add(1, std::memory_order_relaxed);

  std::uint64_t number = 0;
  Entry& entry = Take(&number, theirs);
  entry.call = call->number.load(std::memory_order_relaxed);
  entry.is_channel = true;
  entry.timed = timer != 0;
  entry.ended.store(false, std::memory_order_relaxed);
  return Publish(entry, number);
}

void EndChannel(const void* handle, std::uint64_t timer) {
  Entry* const entry = EntryOf(handle);
  // Both instants are of one clock: where the GPU has timed the begin, its timer at the end comes before the stop.
  if (!entry || !entry->is_channel || entry->timed != (timer != 0)) return;
  if (entry->ended.exchange(true, std::memory_order_relaxed)) return;
  Entry* const call = EntryOf(entry->call);
  if (!call) return;
  const std::uint64_t now = At(timer);
  if (now > call->end_ns.load(std::memory_order_relaxed)) call->end_ns.store(now, std::memory_order_relaxed);
  if (call->open.fetch_sub(1, std::memory_order_relaxed) == 1) Write(*call, entry->timed);
}

bool FindTheirs(const void* handle, Theirs* theirs) {
  const Entry* const entry = EntryOf(handle);
  if (!entry) return false;
  *theirs = entry->theirs;
  return true;
}

void* TakeTheirStop(const void* handle) {
  Entry* const entry = EntryOf(handle);
  if (!entry || !entry->theirs.handle || entry->stopped.exchange(true, std::memory_order_relaxed)) return nullptr;
  return entry->theirs.handle;
}

}  // namespace ncclwatch::shim::profiler
