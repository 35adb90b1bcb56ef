// What collectives carry, as the program says it (annotate.h): "DDP bucket 0 (0.weight, 0.bias)". A table of entries of
// 192 bytes in the section of the notes, on the page behind the events; those of older writers end their section.
//
// Life: the writer fills an entry in, then counts it in `used`. It never changes, but for `until`.
#pragma once

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/event.h"

namespace ncclwatch::format {

inline constexpr std::uint32_t kPayloads = 1024;

// Of calls of one function and count at positions [from, until) of one communicator. Several entries may hold for a
// call: then it carries one of them.
struct Payload {
  std::uint32_t communicator;  // index into the table
  std::uint32_t generation;    // of that table entry
  std::uint64_t count;
  std::uint64_t from;
  std::atomic<std::uint64_t> until;
  std::uint32_t function;  // functions::Function
  char name[156];          // UTF-8, ends with 0, cut
};
static_assert(sizeof(Payload) == 192);

struct Payloads {
  std::atomic<std::uint32_t> used;
  std::uint32_t reserved[15];
  Payload entries[kPayloads];
};
static_assert(sizeof(Payloads) == 64 + kPayloads * sizeof(Payload));

// Where it begins, in bytes from the start of the file; 0: there is none.
inline std::uint64_t PayloadsOffset(const Section& notes) {
  const std::uint64_t events = EventsOffset(notes);
  const std::uint64_t behind = events + (sizeof(Events) + kPage - 1) / kPage * kPage;
  return events != 0 && notes.offset + notes.bytes >= behind + sizeof(Payloads) ? behind : 0;
}

// Of the writer's own file; null: there is none.
inline Payloads* OwnPayloads(Header* header) {
  const std::uint64_t offset = PayloadsOffset(header->notes);
  return offset == 0 ? nullptr : reinterpret_cast<Payloads*>(reinterpret_cast<char*>(header) + offset);
}

}  // namespace ncclwatch::format
