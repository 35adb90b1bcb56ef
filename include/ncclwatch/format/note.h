// What the program says of itself (annotate.h): a ring of entries of 64 bytes; entry number n, counted from 0 and for
// ever, is in slot n % Section::count.
//
// Life: the writer takes a number, stores commit = 0, a release fence, the fields, and commit = number + 1 (release). A
// reader that finds commit == number + 1 before and after its copy has it whole.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::format {

inline constexpr std::uint32_t kNoteCapacity = 4096;
inline constexpr std::int64_t kNoStep = -1;

enum class NoteKind : std::uint32_t { kNone = 0, kStepBegin = 1, kStepEnd = 2, kMetric = 3 };

struct Note {
  std::atomic<std::uint64_t> commit;
  std::int64_t at_ns;  // CLOCK_MONOTONIC
  std::int64_t step;   // of a metric: the one that has begun, kNoStep: none has
  double value;        // of a metric
  NoteKind kind;
  char name[28];  // of a metric: UTF-8, ends with 0, cut
};
static_assert(sizeof(Note) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace ncclwatch::format
