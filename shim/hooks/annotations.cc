// What the program tells us of itself (ncclwatch/annotate.h).
#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "ncclwatch/format/event.h"
#include "ncclwatch/format/payload.h"
#include "ncclwatch/functions/function.h"
#include "shim/base/clock.h"
#include "shim/base/export.h"
#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/black_box/table.h"
#include "shim/exit_report/write.h"

using namespace ncclwatch::shim;
namespace format = ncclwatch::format;
namespace functions = ncclwatch::functions;

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

// Of an ncclComm_t or an MPI_Comm. One of MPICH is an int: its sign may have been carried on.
std::uint32_t IndexOf(const Box& box, const void* communicator) {
  const auto handle = reinterpret_cast<std::uint64_t>(communicator);
  const std::uint32_t index = box.handles.Find(handle);
  return index != format::kNoCommunicator ? index : box.handles.Find(static_cast<std::uint32_t>(handle));
}

// "AllReduce"; 0: no collective of NCCL.
std::uint32_t CollectiveOf(const char* op) {
  for (const functions::FunctionInfo& info : functions::kFunctions)
    if (functions::IsCollective(info.function) && !functions::IsMpi(info.function) &&
        functions::OpName(info.function) == op)
      return static_cast<std::uint32_t>(info.function);
  return 0;
}

}  // namespace

extern "C" NCCLWATCH_EXPORT void ncclwatch_set_label(void* communicator, const char* name) {
  Box* const box = CurrentBox();
  const std::uint32_t index = box ? IndexOf(*box, communicator) : format::kNoCommunicator;
  if (index != format::kNoCommunicator) SetLabel(box->communicators[index], name ? name : "");
}

extern "C" NCCLWATCH_EXPORT void ncclwatch_set_payload(void* communicator, const char* op, std::uint64_t count,
                                                       const char* name, int begins) {
  Box* const box = CurrentBox();
  format::Payloads* const payloads = box ? format::OwnPayloads(box->header) : nullptr;
  const std::uint32_t index = payloads ? IndexOf(*box, communicator) : format::kNoCommunicator;
  if (index == format::kNoCommunicator || !op || !name) return;
  const std::uint32_t function = CollectiveOf(op);
  if (function == 0) return;
  const format::Communicator& entry = box->communicators[index];
  const std::uint64_t position = entry.entered.load(std::memory_order_relaxed);
  const WriterLock lock(*box);
  const std::uint32_t used = payloads->used.load(std::memory_order_relaxed);
  // Without room for one, the others of its size must not seem to be all.
  const bool full = begins != 0 && used == format::kPayloads;
  for (std::uint32_t i = 0; i < used; ++i) {
    format::Payload& known = payloads->entries[i];
    if (known.communicator != index || known.generation != entry.generation || known.function != function ||
        known.count != count || known.until.load(std::memory_order_relaxed) != UINT64_MAX)
      continue;
    const bool same = std::strncmp(known.name, name, sizeof known.name - 1) == 0;
    if (same && begins != 0) return;
    if (same || full) known.until.store(position, std::memory_order_relaxed);
  }
  if (begins == 0 || full) return;
  format::Payload& made = payloads->entries[used];
  made.communicator = index;
  made.generation = entry.generation;
  made.count = count;
  made.from = position;
  made.until.store(UINT64_MAX, std::memory_order_relaxed);
  made.function = function;
  PutText(made.name, name);
  payloads->used.store(used + 1, std::memory_order_release);
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
