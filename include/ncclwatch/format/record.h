// One recorded call. 128 bytes, written lock-free by the thread that makes the call, read by anyone.
//
// Life of a slot: the writer stores commit = 0 (release), fills the fields, stores commit = slot + 1 (release), calls
// the real function, then stores result and, last, returned (release). A reader loads commit (acquire), copies the
// slot, and loads commit again: the copy is whole only if both loads gave slot + 1. returned == 0 in a whole record
// means that the host is still inside the call.
#pragma once

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/kernel_time.h"

namespace ncclwatch::format {

inline constexpr std::uint32_t kNoCommunicator = 0xffffffffu;
inline constexpr std::uint8_t kNoType = 0xff;         // the call has no datatype
inline constexpr std::uint8_t kNoReduction = 0xff;    // the call has no reduction
inline constexpr std::uint8_t kUserReduction = 0xfe;  // made by ncclRedOpCreate*: its handle differs per process
inline constexpr std::int32_t kNoRank = -1;
inline constexpr std::int32_t kNoResult = -1;  // not returned yet

enum RecordFlags : std::uint32_t {
  kEmpty = 1u << 0,            // count 0: NCCL does nothing and its own sequence does not advance; no position consumed
  kOneRank = 1u << 1,          // the communicator has one rank
  kCaptured = 1u << 2,         // stream was capturing: a graph node was made, nothing ran; never marked
  kMarked = 1u << 3,           // a GPU end mark with this record's ticket is, or will be, enqueued
  kNonBlocking = 1u << 4,      // the communicator is non-blocking: "returned" does not mean enqueued
  kGrouped = 1u << 5,          // made inside ncclGroupStart/End; runs when the outermost GroupEnd returns
  kMarkUnavailable = 1u << 6,  // a mark was wanted and could not be enqueued (no memory operations, error)
  kTimed = 1u << 26,           // of NCCL: the time of its kernel is in `kernel`, or will be
  kStartMarked = 1u << 7,      // a GPU start mark with this record's start number was enqueued before the launch

  // Of MPI alone (mpi_record.h).
  kRequest = 1u << 8,           // done when its request is, not when the call returns
  kAnySource = 1u << 9,         // was a wildcard receive when it was called
  kAnyTag = 1u << 10,           // was a receive of any tag
  kSynchronous = 1u << 11,      // a send that ends only once it is received
  kBuffered = 1u << 12,         // a send that waits for nobody
  kReady = 1u << 13,            // a send whose receive must have been called
  kAnyDoes = 1u << 14,          // a wait that one of its requests ends
  kPolls = 1u << 15,            // tests or probes that found nothing: the last of `count` in a row; `completed` is when
  kPersisting = 1u << 16,       // of a persistent request
  kCancelled = 1u << 17,        // MPI_Cancel was called for it; once it is completed: it never took place
  kForgotten = 1u << 18,        // its request was freed: how it ends nobody learns
  kNoPartner = 1u << 19,        // to or from MPI_PROC_NULL
  kMadeSynchronous = 1u << 20,  // with kSynchronous: the program asked for a standard send (NCCLWATCH_MPI_CHECKS=sync)
  kNoStatus = 1u << 21,         // a blocking receive whose caller wanted no status: it is not told whose message it got
  kTookPart = 1u << 22,    // a collective that returned an error, and not for its arguments: others may have met it
  kAskedAbout = 1u << 23,  // the program was told that its request is done (MPI_Request_get_status) before it ended it
  kHasParts = 1u << 24,    // what it says of single ranks is in the section of parts (parts.h)
  kTooManyParts = 1u << 25,  // ... would be, were it not of more ranks than kMostParts
};

// Counts are in elements of dtype, as the caller passed them.
struct Record {
  std::atomic<std::uint64_t> commit;    // slot + 1 when whole
  std::atomic<std::uint64_t> entered;   // clock ticks, see Clock
  std::atomic<std::uint64_t> returned;  // clock ticks; 0 while the call is inside the library
  std::uint64_t position;  // collectives: of the communicator, from 0 (kEmpty: the position it stands before);
                           // Send/Recv: per peer and direction, from 0; creations: ordinal on the parent
  std::uint64_t count;
  std::uint64_t chain;               // collectives: fingerprint chain of the communicator up to and including this call
  std::uint64_t stream;              // cudaStream_t as passed
  std::uint64_t site;                // return address of the application's call
  std::uint64_t group;               // slot + 1 of the outermost ncclGroupStart's record, 0 outside groups
  std::uint64_t ticket;              // with kMarked: finished once Communicator::marks[ticket % kMarks] > ticket
  std::atomic<std::int32_t> result;  // ncclResult_t, kNoResult until returned
  std::uint32_t function;            // functions::Function
  std::uint32_t communicator;        // index into the table, kNoCommunicator if none
  std::uint32_t generation;          // of that table entry
  std::uint32_t thread;              // kernel thread id
  std::uint32_t flags;               // RecordFlags
  std::int32_t root;       // root of rooted collectives, peer (rank in the communicator) of Send/Recv, else kNoRank
  std::uint8_t dtype;      // ncclDataType_t
  std::uint8_t reduction;  // ncclRedOp_t
  std::uint16_t reserved16;
  std::uint64_t start;                // with kStartMarked: begun once Communicator::starts[start % kStarts] >= start
  std::atomic<std::uint64_t> kernel;  // Pack() of a KernelTime (kernel_time.h), 0: not timed, or not over
};
static_assert(sizeof(Record) == 128);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::int32_t>::is_always_lock_free);

}  // namespace ncclwatch::format
