// What the program says has happened (annotate.h): a ring of entries of 1024 bytes, numbered and committed as notes are
// (note.h). The process's watchdog writes each of them into events.jsonl. It lies in the section of the notes, on the
// page behind them; the notes of older writers end their section.
#pragma once

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::format {

inline constexpr std::uint32_t kEventCapacity = 128;

struct Event {
  std::atomic<std::uint64_t> commit;
  std::int64_t at_ns;  // CLOCK_MONOTONIC
  std::int64_t step;   // that has begun, kNoStep: none has
  std::uint32_t cut;   // 1: the details were longer
  char type[44];       // UTF-8, ends with 0, cut
  char details[952];   // likewise; meant to be JSON
};
static_assert(sizeof(Event) == 1024);

struct Events {
  std::atomic<std::uint64_t> made;     // ever
  std::atomic<std::uint64_t> written;  // by the watchdog, into events.jsonl, or lost
  std::uint64_t reserved[6];
  Event entries[kEventCapacity];
};
static_assert(sizeof(Events) == 64 + kEventCapacity * sizeof(Event));

// Where it begins, in bytes from the start of the file; 0: there is none.
inline std::uint64_t EventsOffset(const Section& notes) {
  const std::uint64_t behind = (std::uint64_t{notes.count} * notes.entry_bytes + kPage - 1) / kPage * kPage;
  return notes.count != 0 && notes.bytes >= behind + sizeof(Events) ? notes.offset + behind : 0;
}

// Of the writer's own file; null: there is none.
inline Events* OwnEvents(Header* header) {
  const std::uint64_t offset = EventsOffset(header->notes);
  return offset == 0 ? nullptr : reinterpret_cast<Events*>(reinterpret_cast<char*>(header) + offset);
}

}  // namespace ncclwatch::format
