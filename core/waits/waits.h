// Step 3: who waits for whom, and what remains when everyone who waits has been taken away.
//
// Edges of a rank are AND: a collective needs all its members, a group all its sends and receives, a join everybody;
// but for those of one choice, of which one would do: a receive from wildcard, MPI_Waitany.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

enum class WaitFor { kCollective, kMessage, kJoin, kEpoch, kEnd };

// `waiter` cannot go on before `other` has made a call.
struct Wait {
  int waiter = -1;      // nodes
  int other = -1;       // -1: no box of it is known
  int other_rank = -1;  // job rank, -1 unknown
  int comm = -1;
  int member = -1;  // the waiter's, in the communicator
  std::uint32_t other_comm_rank = 0;
  WaitFor what = WaitFor::kCollective;
  std::uint64_t position = 0;  // collectives: first one that `other` has not entered; messages: per peer and direction
  const reader::Call* call = nullptr;  // the waiter's; null if the ring has lost it
  int choice = -1;                     // one of the waits with this number is enough to go on; -1: this one is needed
  bool proven = false;  // inside the call, or its GPU mark is outstanding; else it may have finished unseen
  std::int64_t since_ns = 0;
};

// What all waits for one other member of a communicator have in common: who waits for whom, and where.
Wait WaitBetween(const View& view, int comm_index, int member_index, const Member& other);

// The part of a communicator from `position` on is explained already (a mismatch): waits in it prove nothing,
// and its positions no longer say which calls belong together.
struct Explained {
  int comm = -1;
  std::uint64_t position = 0;
};

// All of `waiters` wait for all of `others`: of thousands only some of these waits are edges of the graph.
struct GroupWait {
  std::vector<int> waiters, others;  // nodes
};

// Of a call that holds its rank, and waits for nobody any more: its message is there, or has been received. MPI ends
// it soon where the partner is inside of MPI.
struct Met {
  int partner = -1;  // node; -1: it needs nobody
};

struct WaitGraph {
  std::vector<Wait> waits;
  std::unordered_map<const reader::Call*, Met> met;
  std::vector<GroupWait> group_waits;
  std::vector<std::vector<int>> out;  // by node: indices into waits
  std::vector<std::vector<int>> in;
  std::vector<char> blocked;  // by node: stuck for a reason found elsewhere (a mismatch)
  std::vector<Explained> explained;

  bool Explains(int comm, std::uint64_t position) const;
  bool Waits(int node) const { return !out[node].empty() || blocked[node]; }
  // Everyone else who waits for one of the nodes, directly or through others.
  std::vector<int> Upstream(const std::vector<int>& nodes) const;
  // Nodes from which no sink can be reached: they wait for one another in a cycle.
  std::vector<int> Cyclic() const;
  // Nodes that cannot go on even if all others do what they can: AND and OR taken at their word.
  std::vector<int> Deadlocked() const;
  // Waits along a cycle among these nodes, from the first of them on; empty if there is none.
  std::vector<const Wait*> CycleAmong(
      const std::vector<int>& nodes,
      const std::function<bool(const Wait&)>& counts = [](const Wait&) { return true; }) const;
};

// A rank without which a communicator cannot come into being.
struct MissingRank {
  std::uint32_t comm_rank = 0;  // in the communicator, or in the parent of a split
  int rank = -1;                // job rank, -1 unknown
  int node = -1;                // -1: no box of it is known
};
// For a communicator that somebody is still creating: who has not made the creating call. At most 64 are named by
// edges of the graph, all by this function.
std::vector<MissingRank> Absentees(const View& view, const CommView& comm);

// Inside the call that makes the communicator, or waiting for the request of one that does not block.
bool IsJoining(const View& view, const Member& member);

// It is known that every rank of its parent makes it, by somebody who still does.
bool MadeFromAll(const View& view, const CommView& comm);

// One of its calls is known to be unfinished: it waits as others do, even where nobody is known whom it waits for (all
// have made that call, and some GPU has not got to it).
bool IsInACall(const View& view, const Node& node);

// A gone process waits for nobody. A process waits for a gone one also where that one had entered and not finished.
WaitGraph MakeWaits(const View& view, const std::vector<Explained>& explained);

}  // namespace ncclwatch::diagnosis
