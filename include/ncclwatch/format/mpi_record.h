// One recorded call of MPI: a slot of the ring as format::Record is, and with its life (record.h), in which what NCCL's
// calls need for GPU marks and streams says what MPI's need for requests and messages. A record is of MPI exactly if
// its function is (functions::IsMpi).
//
// A message is told by its channel: (communicator, sender, receiver). `position` counts the messages of a channel on
// either side: sends as they are called, receives as they are matched. Tags let receives overtake one another, so that
// the n-th send need not be the n-th receive; but both sides keep the sum of all tags so far (`chain`), and where the
// sums agree at one position, the first so many sends are the first so many receives, and what comes after can be
// paired by tag.
//
// An access to a window speaks of the window's entry and of the target's memory: `root` is the target, `chain` the
// displacement in the target's units, `count` elements of dtype (what is read or written there), `bytes` from there on
// without a gap (0: with gaps, or not known), `tag` the AccessEpoch, `position` the collectives that this rank had
// called on the window, which tells the fence epoch on all ranks alike, and `signature` counts this rank's own
// synchronizations of the window: what bears the same number is not ordered by any of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/format/record.h"

namespace ncclwatch::format {

inline constexpr std::uint64_t kNotMatched = ~std::uint64_t{0};  // position of a receive that no message has met
inline constexpr std::int32_t kNoTag = -1;

enum class AccessEpoch : std::int32_t { kNone = 0, kFence = 1, kStarted = 2, kShared = 3, kExclusive = 4 };

struct MpiRecord {
  std::atomic<std::uint64_t> commit;    // slot + 1 when whole
  std::atomic<std::uint64_t> entered;   // clock ticks
  std::atomic<std::uint64_t> returned;  // clock ticks; 0 while the call is inside the library
  std::atomic<std::uint64_t> position;  // collectives: of the communicator, from 0; messages: of the channel, from 0
  std::uint64_t count;                  // elements of dtype as passed; of waits and tests: requests; creations:
                                        // collectives that were entered on the parent before
  std::atomic<std::uint64_t> chain;     // collectives: fingerprint chain; messages: AddTag() over the channel;
                                        // creations: the parent's, over those before
  std::atomic<std::uint64_t> waiter;    // with kRequest: slot + 1 of the last call that waits for it or asks, 0 none
  std::uint64_t site;                   // return address of the application's call
  std::uint64_t group;                  // slot + 1 of the first record of a call that makes several, 0: it makes one
  std::uint32_t signature;              // of the elements' basic types, in order; 0: not known
  std::atomic<std::int32_t> tag;        // messages: as passed; once matched, the message's; kHasParts: low bits
  std::atomic<std::int32_t> result;     // MPI error code, kNoResult until returned
  std::uint32_t function;               // functions::Function
  std::uint32_t communicator;           // index into the table, kNoCommunicator if none
  std::uint32_t generation;             // of that table entry
  std::uint32_t thread;                 // kernel thread id
  std::atomic<std::uint32_t> flags;     // RecordFlags
  std::atomic<std::int32_t> root;       // root; peer of messages: as passed, once matched the sender; else kNoRank
  std::uint8_t dtype;                   // functions::Datatype...
  std::uint8_t reduction;               // functions::Reduction...
  std::uint16_t parts_high;             // with kHasParts: bits 32 to 47 of where its parts begin, `tag` has those below
  std::atomic<std::uint64_t>
      completed;        // with kRequest: ticks when the application learned that it is done; 0: not yet
  std::uint64_t bytes;  // of the elements (of receives: room for them)
};
static_assert(sizeof(MpiRecord) == sizeof(Record));
static_assert(offsetof(MpiRecord, position) == offsetof(Record, position));
static_assert(offsetof(MpiRecord, site) == offsetof(Record, site));
static_assert(offsetof(MpiRecord, result) == offsetof(Record, result));
static_assert(offsetof(MpiRecord, function) == offsetof(Record, function));
static_assert(offsetof(MpiRecord, flags) == offsetof(Record, flags));
static_assert(offsetof(MpiRecord, reduction) == offsetof(Record, reduction));

// The order does not matter: two sides that have seen the same tags agree, in whatever order they saw them.
constexpr std::uint32_t AddTag(std::uint32_t sum, std::int32_t tag) {
  return sum + static_cast<std::uint32_t>(Mix(0x7461675f73756dull, static_cast<std::uint32_t>(tag)));
}

}  // namespace ncclwatch::format
