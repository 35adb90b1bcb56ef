// The communicator table: one entry for each communicator of the process, 1024 bytes, in pages of their own so that
// the GPU can be given access to them (marks).
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::format {

inline constexpr std::uint32_t kMarks = 64;  // outstanding launches told apart; a power of two
inline constexpr std::uint32_t kStarts = 8;  // streams of one communicator that have start marks; a power of two
inline constexpr std::uint32_t kLabelBytes = 48;

enum class CommunicatorState : std::uint32_t {
  kFree = 0,
  kInitializing = 1,  // inside the creating call, or non-blocking and not settled yet
  kReady = 2,
  kFinalizing = 3,
  kDestroyed = 4,  // entry may be reused, with generation + 1
  kAborted = 5,
  kFailed = 6,  // the creating call returned an error
  kRevoked = 7,
};

enum CommunicatorFlags : std::uint32_t {
  kCommNonBlocking = 1u << 0,
  kCommIdentityUnknown = 1u << 1,  // first seen in use, not at its creation: cannot be matched across ranks
  kCommRankUnknown = 1u << 2,      // split or non-blocking, not settled yet
  kCommGrown = 1u << 3,  // ncclCommGrow: existing ranks pass no id; joined by parent and ordinal in the reader
  kCommMpi = 1u << 4,    // of MPI
  kCommInter = 1u << 5,  // between two groups: size and rank are of the own one, unless kCommBothGroups
  // A window of MPI over the parent's ranks: its collectives are those of the window, MPI_Win_fence and MPI_Win_free.
  kCommWindow = 1u << 6,
  kCommFile = 1u << 7,     // a file of MPI, likewise
  kCommForeign = 1u << 8,  // with processes of another MPI_COMM_WORLD; its identity is unknown too
  // Between two groups of which both are known: ranks count through both, those of the group with the lower first rank
  // of MPI_COMM_WORLD first. So does the peer of a message; `color` is where the other group begins.
  kCommBothGroups = 1u << 9,
  // Of MPI_COMM_WORLD alone: the process has sent or received messages of which no record tells, on whichever
  // communicator: in callbacks of MPI, or partitioned ones. The counts of both ends do not go together any more.
  kCommUnseenMessages = 1u << 10,
  // The ring has lost a receive of it while no message had met it: which one it takes is not known.
  kCommLostReceives = 1u << 11,
};

// What the last call on the communicator was, kept here because the ring may have wrapped past it.
struct LastCall {
  std::uint64_t slot;  // of its record
  std::uint64_t count;
  std::uint64_t entered;  // ticks
  std::uint32_t function;
  std::int32_t root;
  std::uint8_t dtype;
  std::uint8_t reduction;
  std::uint16_t reserved16;
  std::uint32_t flags;  // RecordFlags
};
static_assert(sizeof(LastCall) == 40);

// Positions are counts: `entered` collectives have been entered, so the next one has position `entered`.
// The application's calls are the only writer of everything but marks (GPU) and are ordered by the application, as
// NCCL demands of users of one communicator.
struct Communicator {
  std::atomic<std::uint64_t> entered;
  std::atomic<std::uint64_t> returned;   // collectives whose call has returned; grouped ones at the outermost GroupEnd
  std::atomic<std::uint64_t> chain;      // fingerprint chain over [0, entered)
  std::atomic<std::uint64_t> tickets;    // end marks handed out in this entry so far; the next ticket
  std::atomic<std::uint64_t> creations;  // communicator-creating calls made on this one (the ordinal of the next)
  std::atomic<std::uint64_t> sends;      // over all peers, entered
  std::atomic<std::uint64_t> receives;
  std::atomic<std::uint64_t> empties;  // calls with count 0
  LastCall last;                       // last collective
  std::uint64_t memory;                // of a window: bytes of it that are this rank's, and one more; 0: not known
  std::uint64_t id;                    // identity: equal on every rank
  std::uint64_t parent;                // identity of the parent, 0 for a root communicator
  std::uint64_t parent_ordinal;
  std::uint64_t handle;   // ncclComm_t in the process
  std::uint64_t created;  // ticks
  std::uint32_t rank;     // of this process (or thread) in the communicator
  std::uint32_t size;
  std::int32_t color;     // of a split; of MPI_COMM_WORLD the level of threads granted; of a window its unit; see flags
  std::int32_t device;    // CUDA device ordinal, -1 unknown
  std::uint32_t library;  // which libnccl of the process made it
  std::uint32_t flags;    // CommunicatorFlags
  std::uint32_t generation;
  std::atomic<std::uint32_t> state;  // CommunicatorState
  char label[kLabelBytes];           // zero-terminated, may be empty
  // Right before the first abort or revocation: that ends kernels too, and marks behind those then read as finished.
  std::uint64_t aborted;                  // ticks, stored last; 0: neither
  std::uint64_t aborted_tickets;          // handed out by then
  std::uint16_t unfinished[kMarks];       // aborted_tickets - marks[i] by then, at most 65535
  std::uint64_t aborted_starts[kStarts];  // the starts by then
  std::uint32_t gpu;  // offset in strings of "GPU-5c1f... 0000:3B:00.0", 0: not known; older writers had zeroes here
  std::uint32_t reserved;
  // starts[s % kStarts] >= s once the GPU has come to the launch with start number s, which it then begins. Each stream
  // has a place of its own, so that its numbers only grow. Only with NCCLWATCH_GPU=both; older writers had zeroes here.
  std::atomic<std::uint64_t> starts[kStarts];
  // marks[t % kMarks] = t + 1, written by the GPU when the launch with ticket t has finished. Two streams may finish
  // out of order: a single counter would run backwards.
  std::atomic<std::uint64_t> marks[kMarks];
};
static_assert(sizeof(Communicator) == 1024);

// A communicator of all ranks of a job, made: each of them has come to its making, and so has a black box somewhere.
inline bool IsWholeWorld(const Communicator& one, std::int32_t world_size) {
  const auto state = static_cast<CommunicatorState>(one.state.load(std::memory_order_acquire));
  // Not aborted ones: that may have happened while it was being made.
  const bool made = state == CommunicatorState::kReady || state == CommunicatorState::kFinalizing ||
                    state == CommunicatorState::kDestroyed || state == CommunicatorState::kRevoked;
  return made && world_size > 0 && one.size >= static_cast<std::uint32_t>(world_size) &&
         (one.flags & (kCommInter | kCommForeign)) == 0;
}

// Sends and receives per peer, an open-addressed table hashed by (communicator, peer).
struct Peer {
  std::atomic<std::uint64_t> key;       // 0 free, else (generation << 40 | communicator << 20 | peer) + 1
  std::atomic<std::uint64_t> sends;     // entered
  std::atomic<std::uint64_t> receives;  // entered; of MPI: matched
  // Of MPI alone: AddTag() over them (mpi_record.h).
  std::atomic<std::uint32_t> send_tags;
  std::atomic<std::uint32_t> receive_tags;
};
static_assert(sizeof(Peer) == 32);

// generation is taken modulo 2^24, communicator and peer are below 2^20.
constexpr std::uint64_t PeerKey(std::uint32_t generation, std::uint32_t communicator, std::uint32_t peer) {
  return ((std::uint64_t{generation & 0xffffffu} << 40) | (std::uint64_t{communicator} << 20) | peer) + 1;
}
constexpr std::uint64_t PeerSlot(std::uint64_t key, std::uint32_t capacity) {
  return (key * 0x9e3779b97f4a7c15ull >> 32) % capacity;
}

}  // namespace ncclwatch::format
