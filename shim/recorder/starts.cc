#include "shim/recorder/starts.h"

#include "shim/recorder/group_marks.h"
#include "shim/recorder/marks.h"
#include "shim/recorder/settle.h"

namespace ncclwatch::shim {
namespace {

// The number before the flag that gives it a meaning.
void Write(Box& box, std::uint64_t slot, std::uint64_t number) {
  if (!StillOurs(box, slot)) return;
  format::Record& record = box.RecordAt(slot);
  std::atomic_ref(record.start).store(number, std::memory_order_relaxed);
  std::atomic_ref(record.flags).fetch_or(format::kStartMarked, std::memory_order_release);
}

void MarkAlone(Box& box, const Call& call) {
  const Operation operation{.slot = call.slot,
                            .stream = call.stream,
                            .chain_before = 0,
                            .position = call.position,
                            .index = call.index,
                            .generation = call.generation,
                            .peer = call.root,
                            .flags = call.flags,
                            .function = static_cast<std::uint32_t>(call.function),
                            .timing = Timing::kNone};
  std::uint64_t number = 0;
  if (CanBeMarked(operation) && device::EnqueueStart(box, operation, &number) == device::Outcome::kEnqueued)
    Write(box, call.slot, number);
}

void MarkGroup(Box& box, const Group& group) {
  GroupMarks<device::EnqueueStart> marks;
  for (std::uint32_t i = 0; i < group.operations; ++i) {
    const Operation& operation = group.operation[i];
    if (!CanBeMarked(operation)) continue;
    const GroupMark* mark = marks.For(box, operation);
    if (mark && mark->outcome == device::Outcome::kEnqueued) Write(box, operation.slot, mark->number);
  }
}

}  // namespace

void MarkStarts(Box& box, const Thread& thread, const Call& call) {
  // While nothing is recorded nobody could tell whose mark it is.
  if (!box.start_marks_wanted || call.slot == kNoSlot) return;
  if (call.family != functions::Family::kGroup) {
    if (thread.depth == 0) MarkAlone(box, call);
  } else if (call.closing && !call.closing->failed) {
    MarkGroup(box, *call.closing);
  }
}

}  // namespace ncclwatch::shim
