// What goes on in a job on this node, as its live black boxes tell it now.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/finding.h"
#include "core/slow/topology.h"

namespace ncclwatch::analyzer {

struct RankState {
  int rank = -1;
  bool alive = false;
  std::uint64_t calls = 0;  // of NCCL and MPI, so far
  double waiting_s = 0;     // of the oldest call that is not over
  std::optional<std::uint64_t> step;
};

// Medians over the ranks, of the newest steps; they add up.
struct StepState {
  double step_s = 0, compute_s = 0, exposed_s = 0, wait_s = 0, idle_s = 0;
};

struct TransferState {
  std::string op;
  std::uint64_t bytes = 0;
  double busbw_bytes_per_s = 0;
};

struct NodeState {
  std::string job, host, nccl;
  int expected = 0;              // ranks of the whole job, 0 unknown
  std::vector<RankState> ranks;  // of this node, ascending
  std::optional<StepState> step;
  std::vector<TransferState> transfers;  // what took most of the time, the most first
  std::vector<diagnosis::Finding> findings;
  std::map<std::pair<std::string, int>, double> numbers;  // of the program, the newest: by name and rank
};

// Of a run directory. Reads the newest calls of each rank; milliseconds for the ranks of a node. Nothing is of ranks
// that have no box (any more). A box that somebody cuts short is left out: SIGBUS has a handler (reader/guard.h).
NodeState ObserveNode(const std::string& directory, const diagnosis::Topology& topology);

}  // namespace ncclwatch::analyzer
