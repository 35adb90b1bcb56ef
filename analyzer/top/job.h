// A job as `ncclwatch top` shows it at one moment: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/metrics/node_state.h"

namespace ncclwatch::analyzer::top {

struct Rates {
  double calls_per_s = 0, bytes_per_s = 0;
};

struct Process {
  int rank = -1;
  std::string host;  // what the scheduler calls the machine, else its host
  std::uint32_t pid = 0;
  bool alive = false;
  std::uint64_t calls = 0;     // so far
  std::optional<Rates> rates;  // since the look before; none: this is the first one
};

// One rank in one communicator. A process that has none is a member of none: `size` is 0.
struct Member {
  std::size_t process = 0;  // index into Job::processes
  std::uint64_t communicator = 0;
  std::uint32_t rank = 0, size = 0;  // in it
  std::string label;
  std::optional<std::uint64_t> position;  // of its newest collective
  std::uint64_t behind = 0;               // collectives that the farthest member is ahead of it
  bool lags = false;                      // and has been for longer than a moment
  std::string_view op, state;             // of its newest call; empty: none is known
  std::optional<std::uint64_t> bytes;     // of that call
  double since_s = 0;                     // since it was called
  std::optional<Rates> rates;

  // For comparisons. Instants are those of `clock`; equal numbers are one clock.
  bool comparable = true;  // else its communicator cannot be told from others
  std::uint64_t collectives = 0;
  std::int64_t called_ns = 0;  // its newest collective
  std::size_t clock = 0;
};

struct Communicator {
  std::uint64_t id = 0;
  std::string label;
  std::uint32_t size = 0, seen = 0;       // members in all, and with a box here
  std::optional<std::uint64_t> position;  // of the farthest
  std::vector<int> last;                  // job ranks; empty: all came together, or nobody can tell
  std::vector<int> ahead;                 // where most members are the last: the farthest ones
  std::uint64_t behind = 0;               // by how many collectives they are behind
  double late_s = 0;                      // ... or, with none between, how long after the middle member they called
};

// What takes longer to find out: as of some seconds ago.
struct Assessment {
  std::int64_t at_ns = 0;  // CLOCK_MONOTONIC; 0: not known yet
  std::optional<StepState> step;
  std::map<int, std::uint64_t> steps;  // by rank: the newest one
  std::vector<diagnosis::Finding> findings;
};

struct Job {
  std::string directory, name;
  std::uint32_t attempt = 0;
  std::string_view state = "finished";      // running, fault or finished: as `ls` says it
  bool removed = false;                     // the run directory is gone: what was last seen stays
  int alive = 0, expected = 0;              // ranks of the whole job, 0 unknown
  std::vector<int> not_shown;               // ranks without a box here
  std::vector<Process> processes;           // by rank
  std::vector<Member> members;              // by rank, then by communicator
  std::vector<Communicator> communicators;  // largest first
  std::vector<std::string> unreadable;      // files, with the reason
  Assessment assessment;
};

}  // namespace ncclwatch::analyzer::top
