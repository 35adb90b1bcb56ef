// What a reader of another tool's trace gives: one process's calls and operations, which become a recording.
//
// A reader fills a Trace file by file; Finish() orders the calls, numbers them and gives groups their identity. Nothing
// of one process depends on another, so that thousands of files pass through memory one after another.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/box.h"

namespace ncclwatch::analyzer::import {

// A communicator or process group, as the trace names it. Equal names and ranks are one group in all processes.
struct TraceGroup {
  static constexpr int kUnknownRank = -2;
  std::string name;         // unique in the job
  std::string label;        // for people; empty: the name
  std::vector<int> ranks;   // job ranks in the group's order; empty: not told
  int size = 0;             // 0: as many as `ranks`, or the world
  int rank = -1;            // of this process in it; -1: by `ranks`, or its job rank where those are not told
  std::uint64_t id = 0;     // 0: made of name and ranks
  std::uint32_t flags = 0;  // format::CommunicatorFlags, without that of an unknown rank
  // Where each process's trace is a window of its own: from which position on all of them hold the calls, and how many
  // collectives there were at least, as the others tell.
  std::uint64_t compared_from = 0, entered = 0;
  bool operator==(const TraceGroup&) const = default;
};

// Of a call that the trace does not tell to be over, returned_ns is 0, and it stays pending.
struct TraceCall {
  reader::Call call;          // chain, communicator and ticket are set by Finish(); instants as those of the trace
  int group = -1;             // place in Trace::groups, -1: on none
  bool has_position = false;  // else Finish() counts: collectives of the group, messages by peer and direction
  bool marked = true;         // it is known whether the GPU has finished it
  bool started = false;       // on the GPU
  bool finished = true;       // on the GPU, or in MPI: its operation is over
  bool by_rank = false;       // ranks may give different amounts in it
  std::size_t operation = SIZE_MAX;  // place in the operations: what carries it out
};

// What Call::slot of its calls means. Without numbers they are ordered by `entered_ns` and counted from 0.
enum class Slots : std::uint8_t {
  kNone,
  kOrder,  // their order, and what Call::group and Call::waiter name; they are counted from 0
  kKept,   // likewise, and they keep the numbers: what is between them is lost
};

struct Trace {
  std::string path;  // of the file, for people
  std::string host, command;
  int rank = -1, world_size = 0;
  int stage = -1, replica = -1;
  std::uint32_t pid = 0;         // 0: made of the rank
  bool window = false;           // a profiler recorded it for a while: earlier and later calls are not in it
  std::int64_t ended_ns = 0;     // the last instant it tells of; 0: that of its calls and operations
  std::int64_t realtime_ns = 0;  // to be added to its instants: CLOCK_REALTIME
  Slots slots = Slots::kNone;
  std::vector<TraceGroup> groups;
  std::vector<TraceCall> calls;
  std::vector<reader::CallSite> sites;  // numbers of reader::Call::site and their names ("train.py:12 in step")
  std::vector<reader::Note> notes;      // steps and metrics
  reader::Operations operations;

  int GroupOf(TraceGroup group);                // its place; a new one is added
  std::uint32_t NameOf(std::string_view name);  // of operations; its place

 private:
  absl::flat_hash_map<std::string, std::uint32_t> name_of_;
};

// Positions of messages that have none, by peer, direction and tag: those of one tag do not overtake one another, and
// the two sides of a message need not count in the order in which they were called.
void NumberByTag(Trace* trace);

// As a box of the process with all its calls; instants are the trace's own.
reader::BoxImage Finish(Trace trace);

// Recordings of traces: segments of one file for each process, in a directory that exists.
class TraceWriter {
 public:
  explicit TraceWriter(std::string directory) : directory_(std::move(directory)) {}
  // Thread-safe for boxes of different processes.
  absl::Status Add(const reader::BoxImage& box) const;
  // What the traces do not tell stays with the recording.
  absl::Status AddNotes(const std::vector<std::string>& notes) const;

 private:
  std::string directory_;
};

struct Imported {
  std::uint64_t processes = 0, calls = 0, operations = 0;
  std::vector<reader::Failure> failures;  // files that could not be read, or not to their end
  std::vector<std::string> notes;         // what the traces do not tell
};

// Readers give each process as soon as it is read, from several threads if they like. A file that is damaged gives what
// could be read before, and a failure with file and offset. `done` is called with how many files have been read.
using TakeTrace = absl::FunctionRef<void(Trace)>;
using FilesRead = absl::FunctionRef<void(std::size_t)>;

}  // namespace ncclwatch::analyzer::import
