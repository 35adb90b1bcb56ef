// Plain values copied out of a black box: what a diagnosis looks at. All instants are CLOCK_MONOTONIC nanoseconds of
// the node that wrote the box.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/reader/operation.h"
#include "core/reader/words.h"
#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/format/mpi_record.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::reader {

// The library has taken the call: done, or for a non-blocking communicator of NCCL under way (ncclInProgress).
constexpr bool Taken(functions::Function function, std::int32_t result) {
  return result == 0 || (result == 7 && !functions::IsMpi(function));
}

struct Call {
  std::uint64_t slot = 0;
  std::int64_t entered_ns = 0;
  std::int64_t returned_ns = 0;  // 0: still inside the library
  std::uint64_t position = 0;
  std::uint64_t count = 0;
  std::uint64_t chain = 0;
  std::uint64_t stream = 0;
  std::uint64_t site = 0;
  std::uint64_t group = 0;  // slot + 1 of the outermost ncclGroupStart, 0 outside groups
  std::uint64_t ticket = 0;
  std::uint64_t start = 0;  // valid with format::kStartMarked
  std::int32_t result = format::kNoResult;
  functions::Function function{};
  std::uint32_t communicator = format::kNoCommunicator;
  std::uint32_t generation = 0;
  std::uint32_t thread = 0;
  std::uint32_t flags = 0;  // format::RecordFlags
  std::int32_t root = format::kNoRank;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  format::KernelTime kernel;      // of NCCL alone
  std::int64_t completed_ns = 0;  // with format::kRequest: the application knows that it is over; kPolls: the last one

  // Of MPI alone (format::MpiRecord).
  std::int32_t tag = format::kNoTag;
  std::uint32_t signature = 0;
  std::uint64_t bytes = 0;
  std::uint64_t waiter = 0;  // slot + 1 of the last call that waits for its request, or asks about it, 0 none
  std::uint64_t parts = 0;   // with format::kHasParts: number of the first entry (format/parts.h)
  bool awaited = false;      // ... which is in progress
  bool polled = false;       // ... and tests in a loop: its caller may go on at any time
  bool wait_any = false;     // ... and any of several requests ends

  // What binds its caller: MPI's calls do until they return, with a request while somebody waits for that.
  bool BlocksCaller() const { return returned_ns == 0 || awaited; }
};

inline std::uint64_t FingerprintOf(const Call& call) {
  return format::Fingerprint(call.function, call.count, call.dtype, call.reduction, call.root, call.signature);
}

// A call of MPI and what it says of single ranks: the amounts for each, or the members of a group.
struct CallParts {
  Call call;
  std::vector<format::Part> sends;
  std::vector<format::Part> receives;  // or members
};

struct LastCall {
  std::uint64_t slot = 0;
  std::uint64_t count = 0;
  std::int64_t entered_ns = 0;
  functions::Function function{};
  std::int32_t root = format::kNoRank;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  std::uint32_t flags = 0;
};

// Positions of the collectives that the ring holds and the image has left out (Prefilter): all of them had content,
// have returned well, and have finished where that is marked.
struct LeftOut {
  std::uint64_t first = UINT64_MAX;
  std::uint64_t end = 0;
  std::uint64_t finished = 0;  // the position after the newest that the GPU is known to have finished
  bool Has(std::uint64_t position) const { return first <= position && position < end; }
};

struct Communicator {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  std::uint64_t parent_ordinal = 0;
  std::uint64_t handle = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::int32_t color = 0;
  std::int32_t device = -1;
  std::string gpu;           // "GPU-5c1f... 0000:3B:00.0": its name and its place on the bus; empty: not known
  std::uint64_t memory = 0;  // format::Communicator::memory
  std::uint32_t flags = 0;   // format::CommunicatorFlags
  format::CommunicatorState state{};
  std::string label;
  std::int64_t created_ns = 0;
  std::uint64_t entered = 0;
  std::uint64_t returned = 0;
  std::uint64_t chain = 0;
  std::uint64_t tickets = 0;
  std::uint64_t creations = 0;
  std::uint64_t sends = 0;
  std::uint64_t receives = 0;
  std::uint64_t empties = 0;
  LastCall last;
  std::array<std::uint64_t, format::kMarks> marks{};
  std::int64_t aborted_ns = 0;  // or revoked; 0: neither
  std::uint64_t aborted_tickets = 0;
  std::array<std::uint16_t, format::kMarks> unfinished{};  // format::Communicator::unfinished
  LeftOut left_out;
  std::array<std::uint64_t, format::kStarts> starts{};
  std::array<std::uint64_t, format::kStarts> aborted_starts{};
  // Job ranks by rank in it, where the source tells them; a black box does not.
  std::shared_ptr<const std::vector<std::int32_t>> members;

  // Valid for a call with format::kMarked. What an abort has ended did not finish.
  bool Finished(std::uint64_t ticket) const {
    const std::size_t slot = ticket % format::kMarks;
    if (aborted_ns == 0 || ticket >= aborted_tickets) return marks[slot] > ticket;
    return aborted_tickets - std::min<std::uint64_t>(unfinished[slot], aborted_tickets) > ticket;
  }
  // Valid for a call with format::kStartMarked. What an abort has let come to its turn did not begin.
  bool Started(std::uint64_t start) const {
    const std::size_t place = start % format::kStarts;
    return (aborted_ns == 0 ? starts[place] : aborted_starts[place]) >= start;
  }
};

struct PeerCount {
  std::uint32_t communicator = 0;
  std::uint32_t generation = 0;
  std::uint32_t peer = 0;
  std::uint64_t sends = 0;
  std::uint64_t receives = 0;
};

struct Observation {
  std::int64_t at_ns = 0;
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint32_t place = 0;  // format::PidPlace, 0: not said
  std::int32_t rank = format::kNoRank;
  format::Observed what{};
  std::uint32_t exit_flags = 0;  // format::ExitFlags
  std::int32_t exit_signal = 0;
  std::int32_t exit_status = 0;
};

struct LeaderState {
  std::int64_t suspect_after_ns = 0;  // 0: this process never led
  std::int64_t likely_after_ns = 0;
  std::int64_t verdict_at_ns = 0;
  std::int64_t longest_wait_ns = 0;
  std::uint64_t waits = 0;
  std::uint64_t generation = 0;             // the highest one speaks
  std::int64_t job_minus_monotonic_ns = 0;  // 0: not known
};

struct CallSite {
  std::uint64_t address = 0;
  std::string name;  // "/path/of/module+0x1234"; a line of Python as format::PythonSiteName has it
  std::int64_t named_ns = 0;
  std::uint64_t native = 0;  // of a line of Python: the address of the call site behind it
};

struct LastWords {
  bool written = false;
  std::int32_t exit_status = 0;
  std::int32_t signal = 0;
  std::int64_t at_ns = 0;
  std::string text;
};

// What the program said of itself.
struct Note {
  format::NoteKind kind{};
  std::int64_t at_ns = 0;
  std::int64_t step = format::kNoStep;
  double value = 0;
  std::string name;
};

// What it said has happened; its details lie in events.jsonl.
struct Event {
  std::int64_t at_ns = 0;
  std::int64_t step = format::kNoStep;
  std::string type;
};

// What calls of one function and count at positions [from, until) of a communicator carry, as the program said.
struct Payload {
  std::uint32_t communicator = 0;  // index and generation
  std::uint32_t generation = 0;
  functions::Function function{};
  std::uint64_t count = 0;
  std::uint64_t from = 0;
  std::uint64_t until = UINT64_MAX;
  std::string name;
};

struct BoxImage {
  std::string path;
  std::string node;  // what the scheduler calls the machine; empty: as its host
  std::string boot_id, host, job, command, master_address, nccl_library;
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t attempt = 0;
  std::int32_t rank = format::kNoRank;  // as the launcher said
  std::int32_t world_size = 0;
  std::int32_t local_rank = format::kNoRank;
  std::int32_t local_world_size = 0;
  std::int32_t master_port = 0;
  std::int32_t stage = -1;    // of the pipeline, where its source tells it, as black boxes do not
  std::int32_t replica = -1;  // likewise: of data parallelism
  format::ProcessState state{};
  bool watching = true;
  std::int64_t heartbeat_ns = 0;
  std::uint64_t heartbeats = 0;
  std::int64_t realtime_minus_monotonic_ns = 0;
  std::uint32_t nccl_version = 0;
  std::string environment;  // format/environment.h; empty: not said
  format::GpuMarks gpu_marks{};
  std::uint32_t communicators_lost = 0;
  std::uint32_t peers_lost = 0;
  std::uint64_t head = 0;              // slots handed out
  std::uint64_t first_slot = 0;        // oldest slot still in the ring; calls before it are lost
  std::uint64_t left_out = 0;          // calls that are in the ring of the file and not in `calls` (left_out.h)
  std::uint64_t left_out_before = 0;   // ... all of them in slots before this one
  std::int64_t left_out_until_ns = 0;  // the last instant that one of them tells of
  // Up to this slot a message left out has the size of the one before it from or to the same peer.
  std::uint64_t sizes_until = UINT64_MAX;
  std::uint32_t torn = 0;     // slots that were being written when copied
  std::uint32_t damaged = 0;  // communicators left out: their rank or size cannot be
  // No box, but what another node tells of it, or a recording without its end: messages are not counted, and what is
  // known of it may be older than what is known of others.
  bool from_summary = false;
  bool dump = false;         // no box, but another recorder's dump of the process: no pid, host, stream or liveness
  bool active_only = false;  // ... of the calls that were under way: what is not there is over
  bool window = false;       // ... of a profiler, of the calls of a while, all of which are over
  LastWords last_words;
  Words words;
  LeaderState leader_state;
  std::vector<Communicator> communicators;
  std::vector<PeerCount> peers;
  std::vector<CallSite> call_sites;  // those that have a name
  std::vector<Note> notes;           // the newest, in order
  std::vector<Event> events;         // likewise
  std::vector<Payload> payloads;
  std::vector<Observation> observations;  // what this process observed of others, in order
  std::vector<Call> calls;                // by slot, ascending; all that the ring holds but `left_out`
  std::vector<CallParts> parts;           // of those of `calls` that have some, as far as they are not overwritten
  Operations operations;                  // of another tool's trace; black boxes hold none

  const CallParts* PartsOf(std::uint64_t slot) const;  // null: none are known
  // "DDP bucket 0 (0.weight, 0.bias)", "one of FSDP unit a, FSDP unit b"; empty: not known.
  std::string PayloadOf(const Call& call) const;
};

// Whether the observation is about the process of the box.
bool IsAbout(const Observation& observation, const BoxImage& box);

// "module+0x1234" where the box had a name for the return address before that instant, else the bare number
// ("0x7f0012345678").
std::string SiteText(const BoxImage& box, std::uint64_t site, std::int64_t before_ns = INT64_MAX);

}  // namespace ncclwatch::reader
