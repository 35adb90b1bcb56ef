// What the program tells us of itself (ncclwatch/annotate.h).
#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "shim/base/clock.h"
#include "shim/base/export.h"
#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/black_box/table.h"

using namespace ncclwatch::shim;
namespace format = ncclwatch::format;

namespace {

std::atomic<std::int64_t> step_begun{format::kNoStep};

void Add(format::NoteKind kind, std::int64_t step, const char* name, double value) {
  const KeepErrno keep;
  Box* const box = FirstUse(0);
  if (!box || box->header->watching.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t number = box->header->notes_made.fetch_add(1, std::memory_order_relaxed);
  format::Note& note = box->notes[number % format::kNoteCapacity];
  note.commit.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  note.at_ns = clock::Nanoseconds(CLOCK_MONOTONIC);
  note.step = step;
  note.value = value;
  note.kind = kind;
  std::memset(note.name, 0, sizeof note.name);
  if (name) std::memcpy(note.name, name, strnlen(name, sizeof note.name - 1));
  note.commit.store(number + 1, std::memory_order_release);
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
  Add(begins != 0 ? format::NoteKind::kStepBegin : format::NoteKind::kStepEnd, step, nullptr, 0);
}

extern "C" NCCLWATCH_EXPORT void ncclwatch_set_metric(const char* name, double value) {
  if (name) Add(format::NoteKind::kMetric, step_begun.load(std::memory_order_relaxed), name, value);
}
