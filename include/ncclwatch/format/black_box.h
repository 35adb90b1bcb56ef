// The black box, format version 2: one file per process, `<host>.<pid>.<start time>.box` in the run directory, written
// by its process (and GPU) through shared memory, complete after kill -9. Native endianness and alignment; a reader
// checks endian_mark. docs/FORMAT.md describes it in words; change both and kVersion together.
//
//   page 0      Header
//   + offsets   communicators, ring, peers, observations, words, parts, notes, strings (each page-aligned; sizes in the
//               header)
//
// The process holds a POSIX record lock (F_SETLK, F_WRLCK, byte 0) while it lives. Such a lock is neither inherited by
// fork children nor kept by their mappings, so it falls at the moment of death whatever the process leaves behind.
#pragma once

#include <cstddef>

#include "ncclwatch/format/communicator.h"
#include "ncclwatch/format/last_words.h"
#include "ncclwatch/format/note.h"
#include "ncclwatch/format/observation.h"
#include "ncclwatch/format/parts.h"
#include "ncclwatch/format/record.h"

namespace ncclwatch::format {

inline constexpr char kMagic[8] = {'N', 'C', 'C', 'L', 'W', 'B', 'O', 'X'};
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kEndianMark = 0x01020304;
inline constexpr std::uint32_t kPage = 4096;
inline constexpr char kBoxSuffix[] = ".box";

inline constexpr std::uint32_t kDefaultCommunicators = 1024;  // that can be alive at once; from 64 to 65536
inline constexpr std::uint32_t kMostCommunicators = 65536;
inline constexpr std::uint32_t kPeerCapacity = 16384;
inline constexpr std::uint32_t kObservationCapacity = 1024;
inline constexpr std::uint32_t kStringBytes = 65536;
inline constexpr std::uint32_t kDefaultRing = 16384;  // records; any power of two from 256 to 2^22

enum class ProcessState : std::uint32_t {
  kRunning = 1,
  kExiting = 2,   // exit(), _exit() or a fall from main was seen; LastWords::exit_status is set
  kCrashing = 3,  // a fatal signal was seen
};

enum class ClockSource : std::uint32_t { kMonotonic = 0, kCycleCounter = 1 };

// ticks -> CLOCK_MONOTONIC ns: anchor_ns + (ticks - anchor_ticks) * ns_per_tick, by the newest anchor that is not later
// than the ticks (the oldest kept, if all are). So a new anchor never moves an instant that was told before.
// With kMonotonic ticks are ns already, and there are no anchors.
struct ClockAnchor {
  std::uint64_t ticks;
  std::int64_t monotonic_ns;
  double ns_per_tick;
};
static_assert(sizeof(ClockAnchor) == 24);
inline constexpr std::uint32_t kClockAnchors = 16;
struct Clock {
  std::uint32_t source;  // ClockSource
  // Anchors ever written: number n is anchors[n % kClockAnchors]. The one after the newest may be half written, so
  // the newest kClockAnchors - 1 count.
  std::atomic<std::uint32_t> anchored;
  std::atomic<std::int64_t> realtime_minus_monotonic_ns;  // stored anew only when CLOCK_REALTIME was set
  ClockAnchor anchors[kClockAnchors];
};
static_assert(sizeof(Clock) == 400);

struct Section {
  std::uint64_t offset;  // bytes from the start of the file
  std::uint64_t bytes;
  std::uint32_t count;  // entries
  std::uint32_t entry_bytes;
};
static_assert(sizeof(Section) == 24);

struct Identity {
  char boot_id[40];  // text of /proc/sys/kernel/random/boot_id
  char host[64];
  char job[128];                // as in the run directory's name
  std::uint64_t pid_namespace;  // inode of /proc/self/ns/pid
  std::uint64_t start_time;     // field 22 of /proc/self/stat
  std::uint32_t pid;            // in that namespace
  std::uint32_t uid;
  std::uint32_t attempt;
  std::int32_t rank;        // of the process, from the launcher's environment; kNoRank if it says none
  std::int32_t world_size;  // likewise, 0 unknown
  std::int32_t local_rank;
  std::int32_t local_world_size;
  std::int32_t master_port;  // 0 unknown
  char master_address[64];
  char command[256];  // argv joined by spaces, cut
};
static_assert(sizeof(Identity) == 600);

// A distinct address from which calls were made, and what it is: "/path/of/module+0x1234", the place just before the
// return address in the module's own addresses, as addr2line takes it. Named by the watchdog of the process, which
// reads its own memory map; after the process nobody could.
struct CallSite {
  std::atomic<std::uint64_t> address;  // 0 free; stored last
  std::uint32_t name;                  // offset in strings, 0: in no module
  std::uint32_t reserved;
  std::int64_t named_ns;  // CLOCK_MONOTONIC, just before it could be read
};
static_assert(sizeof(CallSite) == 24);
inline constexpr std::uint32_t kCallSites = 64;  // more than these stay numbers

// How the process ended, in short. What else it said of its end is in the section `words`.
struct LastWords {
  std::atomic<std::uint32_t> written;  // 1 once the fields are whole
  std::int32_t exit_status;            // of exit() or _exit(), valid in state kExiting
  std::int32_t signal;  // valid in state kCrashing; in kExiting SIGHUP where the launcher of MPI was gone, else 0
  std::uint32_t reserved;
  std::int64_t at_ns;  // CLOCK_MONOTONIC
  char text[1000];
};
static_assert(sizeof(LastWords) == 1024);

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t endian_mark;
  std::uint32_t header_bytes;  // sizeof(Header) of the writer
  std::uint32_t mpi_library;   // offset in strings of what it calls itself ("Open MPI v4.1.4"), 0: no MPI
  std::uint64_t file_bytes;
  Section communicators;
  Section ring;
  Section peers;
  Section observations;
  Section strings;
  Identity identity;
  Clock clock;
  LeaderState leader_state;  // written by this process while it leads
  LastWords last_words;
  std::atomic<std::uint32_t> state;        // ProcessState
  std::atomic<std::uint32_t> watching;     // 1 while calls are recorded (`ncclwatch off` clears it)
  std::atomic<std::int64_t> heartbeat_ns;  // CLOCK_MONOTONIC, by the watchdog thread, every 50 ms or faster
  std::atomic<std::uint64_t> heartbeats;
  alignas(64) std::atomic<std::uint64_t> head;                // slots handed out; the next slot
  alignas(64) std::atomic<std::uint32_t> communicators_used;  // entries ever used, the reader's bound
  std::atomic<std::uint32_t> observations_used;
  std::atomic<std::uint32_t> strings_used;        // bytes
  std::atomic<std::uint32_t> communicators_lost;  // made when the table was full: not watched
  std::atomic<std::uint32_t> peers_lost;          // peer counts that found no room
  std::uint32_t nccl_version;                     // of ncclGetVersion, 0 unknown
  std::uint32_t nccl_library;                     // offset of its path in strings, 0 unknown
  std::uint32_t gpu_marks;                        // GpuMarks
  CallSite call_sites[kCallSites];
  Section words;  // one format::Words; all zero in boxes of older writers, who had padding here
  // Of version 2 on.
  Section parts;  // format::Part
  // Offset in strings of what the scheduler calls the machine, 0: as its host. Older writers had padding here.
  std::uint32_t node;
  // Offset in strings of the environment that the process had when it began to use its library (environment.h), 0: not
  // said. Older writers had padding here.
  std::uint32_t environment;
  // All zero in boxes of older writers, who had padding here.
  Section notes;                          // format::Note
  std::atomic<std::uint64_t> notes_made;  // ever
};
inline constexpr std::uint32_t kHeaderBytesOf1 = 3968;  // version 1's; its page goes on with zeroes
static_assert(sizeof(Header) == 4032 && sizeof(Header) <= kPage);
static_assert(kHeaderBytesOf1 <= offsetof(Header, parts) + 8);

enum class GpuMarks : std::uint32_t {
  kNotTried = 0,
  kOn = 1,           // end marks
  kOff = 2,          // NCCLWATCH_GPU=off
  kUnavailable = 3,  // no libcuda, or it refused the pages or the memory operation
  kBoth = 4,         // NCCLWATCH_GPU=both: start marks too
};

}  // namespace ncclwatch::format
