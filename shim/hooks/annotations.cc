// What the program tells us of itself (ncclwatch/annotate.h).
#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "ncclwatch/format/event.h"
#include "shim/base/clock.h"
#include "shim/base/export.h"
#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/black_box/table.h"
#include "shim/exit_report/write.h"

using namespace ncclwatch::shim;
namespace format = ncclwatch::format;

namespace {

std::atomic<std::int64_t> step_begun{format::kNoStep};

// Takes the next entry of a ring (format/note.h), and commits it once `fill` has filled it in.
template <class Entry, class Fill>
void Add(std::atomic<std::uint64_t>* made, Entry* ring, std::uint32_t capacity, Fill fill) {
  const std::uint64_t number = made->fetch_add(1, std::memory_order_relaxed);
  Entry& entry = ring[number % capacity];
  entry.commit.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.at_ns = clock::Nanoseconds(CLOCK_MONOTONIC);
  fill(&entry);
  entry.commit.store(number + 1, std::memory_order_release);
}

// Null: nothing is recorded.
Box* WatchedBox() {
  Box* const box = FirstUse(0);
  return box && box->header->watching.load(std::memory_order_relaxed) != 0 ? box : nullptr;
}

void AddNote(format::NoteKind kind, std::int64_t step, const char* name, double value) {
  const KeepErrno keep;
  Box* const box = WatchedBox();
  if (!box) return;
  Add(&box->header->notes_made, box->notes, format::kNoteCapacity, [&](format::Note* note) {
    note->step = step;
    note->value = value;
    note->kind = kind;
    PutText(note->name, name ? name : "");
  });
}

}  // namespace

extern "C" NCCLWATCH_EXPORT void ncclwatch_set_label(void* communicator, const char* name) {
  Box* const box = CurrentBox();
  if (!box) return;
  // An MPI_Comm of MPICH is an int: its sign may have been carried on.
  const auto handle = reinterpret_cast<std::uint64_t>(communicator);
  std::uint32_t index = box->handles.Find(handle);
  if (index == format::kNoCommunicator) index = box->handles.Find(static_cast<std::uint32_t>(handle));
  if (index != format::kNoCommunicator) SetLabel(box->communicators[index], name ? name : "");
}

extern "C" NCCLWATCH_EXPORT void ncclwatch_set_step(std::int64_t step, int begins) {
  step_begun.store(begins != 0 ? step : format::kNoStep, std::memory_order_relaxed);
  AddNote(begins != 0 ? format::NoteKind::kStepBegin : format::NoteKind::kStepEnd, step, nullptr, 0);
}

extern "C" NCCLWATCH_EXPORT void ncclwatch_set_metric(const char* name, double value) {
  if (name) AddNote(format::NoteKind::kMetric, step_begun.load(std::memory_order_relaxed), name, value);
}

extern "C" NCCLWATCH_EXPORT void ncclwatch_add_event(const char* type, const char* json) {
  const KeepErrno keep;
  Box* const box = type ? WatchedBox() : nullptr;
  format::Events* const events = box ? format::OwnEvents(box->header) : nullptr;
  if (!events) return;
  Add(&events->made, events->entries, format::kEventCapacity, [&](format::Event* event) {
    event->step = step_begun.load(std::memory_order_relaxed);
    event->cut = json && strnlen(json, sizeof event->details) == sizeof event->details;
    PutText(event->type, type);
    PutRedacted(event->details, json ? json : "", box->secret_names);
  });
}
