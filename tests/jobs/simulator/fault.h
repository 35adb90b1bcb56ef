// Faults, by name. Each changes what one or a few ranks do, or what becomes of a process, on NCCL's terms, and says
// what is then true.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "simulation/chance.h"
#include "tests/jobs/simulator/generate.h"

namespace ncclwatch::jobs {

// A place in what a rank does.
struct Spot {
  int rank = 0, section = 0, index = 0;
  Op op;
};

// When the job is looked at.
enum class Look {
  kAnytime,     // at any instant of it
  kSoon,        // once the fault can be seen, before much else happens
  kAfterDeath,  // as a verdict about a death comes
  kAfterStall,  // as a verdict about a standstill comes
};

// What a rank's NCCL says of a communicator some time after the planted call.
struct AsyncError {
  int rank = -1, comm = -1;
  std::int32_t result = 0;
  bool dies = false;  // of it
};

struct Draft {
  Generated* made;
  Dice dice;
  Look look = Look::kAnytime;
  int doomed = -1;  // is killed, or frozen, at a random instant
  bool freezes = false;
  int odd = -1;  // the rank that differs from the others at `position` of `comm`
  int comm = -1;
  std::uint64_t position = 0;
  bool cycle = false;  // the deadlock is made of those who wait for one another in a cycle: that is worked out later
  std::optional<AsyncError> error = std::nullopt;

  Job& job() { return made->job; }
  Truth& truth() { return made->truth; }
  int AnyRank() { return dice.Below(job().shape.ranks); }
  int AnyStep() {
    return job().shape.late ? std::max(1, job().steps - 1) : 1 + dice.Below(std::max(1, job().steps - 1));
  }
  const Comm& CommAt(int comm_index) const { return made->job.comms[static_cast<std::size_t>(comm_index)]; }
  void Change(int rank, Edit edit) { job().edits[rank].push_back(std::move(edit)); }
  // An operation that is as wanted, of any rank in any step; with `begin` also one before the first step. Outside
  // groups unless `grouped`.
  std::optional<Spot> Find(const std::function<bool(const Op&)>& wanted, bool begin = false, bool grouped = false);
};

using Plant = bool (*)(Draft* draft);  // false: this job cannot have it

struct Fault {
  const char* name;
  Plant plant;
};
extern const std::vector<Fault> kRankFaults;     // of processes: dead, gone, stuck, frozen, at the beginning
extern const std::vector<Fault> kCallFaults;     // of collectives
extern const std::vector<Fault> kMessageFaults;  // of sends and receives
extern const std::vector<Fault> kPeerFaults;     // of one message of one rank; not in FaultNames()
extern const std::vector<Fault> kErrorFaults;    // that NCCL or CUDA tells of
extern const std::vector<Fault> kDeadlockFaults;

// What others do about it later: errors of their own, the launcher ends them, a monitor loses patience. Chooses another
// instant where that comes before.
void AddAftermath(Draft* draft);

// Right after the run: the error is told, and what comes of it.
void TellError(Draft* draft);

Op Planted(Op op);
Op Nothing();  // in place of a call that is left out
// Of a message: its rank and the peer.
std::vector<int> BothSides(const Draft& draft, const Spot& spot);
// The one rank; where there are only two, both may be named, since nobody can tell from the calls which of them is
// wrong.
Answer OddOneOut(const std::string& kind, const Comm& comm, int rank);
// At one position one made this call and the others that one.
std::string KindOfDifference(const Op& one, const Op& other);

}  // namespace ncclwatch::jobs
