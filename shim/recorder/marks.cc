#include "shim/recorder/marks.h"

#include <atomic>
#include <cstddef>

#include "shim/base/keep_errno.h"
#include "shim/base/put.h"
#include "shim/base/thread.h"
#include "shim/black_box/table.h"
#include "shim/recorder/driver.h"
#include "shim/resolve/libraries.h"

namespace ncclwatch::shim::device {
namespace {

using format::GpuMarks;

Driver driver;
std::atomic<bool> loaded{false};  // released when the driver above is whole

// Not finding it is not remembered: NCCL may load the driver later.
bool Load(Box& box, std::uint32_t index) {
  if (loaded.load(std::memory_order_acquire)) return true;
  Driver found;
  if (!LoadDriver(resolve::libraries[box.communicators[index].library].path, &found)) return false;
  const WriterLock lock(box);
  if (loaded.load(std::memory_order_relaxed)) return true;
  driver = found;
  loaded.store(true, std::memory_order_release);
  return true;
}

// While another thread captures, calls that "may be unsafe" would spoil its capture unless this thread says that it
// has nothing to do with it.
class Uncaptured {
 public:
  Uncaptured() {
    if (driver.exchange_capture_mode && driver.exchange_capture_mode(&mode_) == CUDA_SUCCESS) exchanged_ = true;
  }
  ~Uncaptured() {
    if (exchanged_) driver.exchange_capture_mode(&mode_);
  }
  Uncaptured(const Uncaptured&) = delete;
  Uncaptured& operator=(const Uncaptured&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

// A communicator's device and context need not be the current ones: one process can drive several GPUs.
class Inside {
 public:
  explicit Inside(CUcontext context) {
    CUcontext current = nullptr;
    if (driver.context_current(&current) != CUDA_SUCCESS) return;
    ok = current == context;
    if (!ok) ok = pushed_ = driver.context_push(context) == CUDA_SUCCESS;
  }
  ~Inside() {
    CUcontext popped;
    if (pushed_) driver.context_pop(&popped);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  bool ok = false;

 private:
  bool pushed_ = false;
};

// The whole table at once, for all contexts: communicators come and go, registrations are slow. Too slow for the
// writer's lock, whose waiters would give up and write without it: the driver orders those who come at once.
bool Register(Box& box) {
  if (box.registered.load(std::memory_order_relaxed)) return true;
  const CUresult result = driver.host_register(box.communicators, box.header->communicators.bytes,
                                               CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  const bool registered = result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (registered) box.registered.store(true, std::memory_order_relaxed);
  return registered;
}

// The context that the communicator works in. Several made in one group, or by ncclCommInitAll, are ready while the
// device of the last one is current.
CUcontext ContextOf(const format::Communicator& entry) {
  CUcontext current = nullptr;
  if (driver.context_current(&current) != CUDA_SUCCESS) current = nullptr;
  CUdevice device = -1;
  if (current && driver.context_device(&device) == CUDA_SUCCESS && (device == entry.device || entry.device < 0))
    return current;
  CUcontext primary = nullptr;
  if (entry.device < 0 || driver.primary_retain(&primary, entry.device) != CUDA_SUCCESS) return nullptr;
  driver.primary_release(entry.device);  // the CUDA runtime, which NCCL stands on, holds it
  return primary;
}

void Tell(Box& box, GpuMarks marks) {
  const std::atomic_ref field(box.header->gpu_marks);  // threads make communicators side by side
  std::uint32_t said = field.load(std::memory_order_relaxed);
  while (said != static_cast<std::uint32_t>(GpuMarks::kOn) && said != static_cast<std::uint32_t>(GpuMarks::kBoth) &&
         !field.compare_exchange_weak(said, static_cast<std::uint32_t>(marks), std::memory_order_relaxed)) {
  }
}

bool GiveAccess(Box& box, std::uint32_t index) {
  if (!Load(box, index)) return false;
  const CUcontext context = ContextOf(box.communicators[index]);
  if (!context) return false;
  const Inside inside(context);
  if (!inside.ok) return false;
  const Uncaptured uncaptured;
  if (!Register(box)) return false;
  CUdeviceptr table = 0;
  if (driver.host_device_pointer(&table, box.communicators, 0) != CUDA_SUCCESS || !table) return false;
  Put(box.privates[index].context, context);
  Put(box.privates[index].device_marks,
      table + index * sizeof(format::Communicator) + offsetof(format::Communicator, marks));
  return true;
}

// A value that the GPU writes so many bytes behind the entry's first end mark.
struct Mark {
  std::uint64_t offset;
  std::uint64_t value;
};

// Puts the mark that `choose` gives on the operation's stream; `note` where that has worked. (As functions, since
// every instruction here is one of each call.)
template <class Choose, class Note>
[[gnu::always_inline]] inline Outcome Write(Box& box, const Operation& operation, const Choose& choose,
                                            const Note& note) {
  format::Communicator& entry = box.communicators[operation.index];
  Private& mine = box.privates[operation.index];
  const std::uint64_t device_marks = std::atomic_ref(mine.device_marks).load(std::memory_order_relaxed);
  void* const context = std::atomic_ref(mine.context).load(std::memory_order_relaxed);
  // Both are the operation's if the entry still is: the next owner's come after its number.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!device_marks || GenerationOf(entry) != operation.generation) return Outcome::kUnavailable;
  const KeepErrno keep;  // the driver makes system calls
  const auto on = reinterpret_cast<CUstream>(operation.stream);
  const Inside inside(static_cast<CUcontext>(context));
  if (!inside.ok) return Outcome::kUnavailable;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  // An error too says that a capture is going on, which the default stream must stay away from.
  if (driver.stream_is_capturing(on, &capture) != CUDA_SUCCESS) return Outcome::kUnavailable;
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE) return Outcome::kCaptured;
  const Mark mark = choose();
  if (driver.stream_write(on, device_marks + mark.offset, mark.value, CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS) {
    Tell(box, GpuMarks::kUnavailable);
    return Outcome::kUnavailable;
  }
  // The driver may have kept us waiting. A mark that is on its way nevertheless is allowed for where the entry begins
  // anew (table.cc).
  if (GenerationOf(entry) != operation.generation) return Outcome::kUnavailable;
  note(mark.value);
  return Outcome::kEnqueued;
}

// The stream's place among the start marks of the communicator: its own for good, kStarts where all are taken. Of the
// default streams one is each thread's own.
std::uint32_t PlaceOf(Private& mine, std::uint64_t stream, std::uint32_t thread) {
  constexpr std::uint64_t kDefaultStreams = 2;
  const std::uint64_t key = (stream <= kDefaultStreams ? std::uint64_t{thread} << 8 | stream : stream) + 1;
  std::uint32_t free = format::kStarts;
  for (std::uint32_t i = 0; i < format::kStarts; ++i) {
    const std::uint64_t taken = std::atomic_ref(mine.start_places[i].stream).load(std::memory_order_relaxed);
    if (taken == key) return i;
    if (taken == 0 && free == format::kStarts) free = i;
  }
  if (free < format::kStarts) Put(mine.start_places[free].stream, key);
  return free;
}

}  // namespace

void Prepare(Box& box, std::uint32_t index) {
  if (!box.gpu_marks_wanted || (box.communicators[index].flags & format::kCommNonBlocking)) return;
  const GpuMarks given = box.start_marks_wanted ? GpuMarks::kBoth : GpuMarks::kOn;
  Tell(box, GiveAccess(box, index) ? given : GpuMarks::kUnavailable);
}

Outcome Enqueue(Box& box, const Operation& operation, std::uint64_t* ticket) {
  if (!box.gpu_marks_wanted) return Outcome::kNotWanted;
  format::Communicator& entry = box.communicators[operation.index];
  const auto choose = [&] {
    const std::uint64_t next = entry.tickets.load(std::memory_order_relaxed);
    return Mark{next % format::kMarks * sizeof(std::uint64_t), next + 1};
  };
  return Write(box, operation, choose, [&](std::uint64_t value) {
    entry.tickets.store(value, std::memory_order_release);
    *ticket = value - 1;
  });
}

Outcome EnqueueStart(Box& box, const Operation& operation, std::uint64_t* number) {
  constexpr std::uint64_t kBefore = offsetof(format::Communicator, marks) - offsetof(format::Communicator, starts);
  Private& mine = box.privates[operation.index];
  const std::uint32_t place = PlaceOf(mine, operation.stream, current_thread.id);
  if (place == format::kStarts) return Outcome::kUnavailable;
  const auto choose = [&] {
    const std::uint64_t count = std::atomic_ref(mine.starts).load(std::memory_order_relaxed) + 1;
    Put(mine.starts, count);  // used up, whatever comes of it
    const Mark mark{place * sizeof(std::uint64_t) - kBefore, count * format::kStarts + place};
    Put(mine.start_places[place].last, mark.value);
    return mark;
  };
  return Write(box, operation, choose, [&](std::uint64_t value) { *number = value; });
}

}  // namespace ncclwatch::shim::device
