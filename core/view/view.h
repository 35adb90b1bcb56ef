// Step 1 of a diagnosis: the boxes joined into one job. Everything later looks at the view only. Pointers lead into the
// snapshot, which outlives it. Instants are nanoseconds on the clock of Snapshot::now_ns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/model/snapshot.h"

namespace ncclwatch::diagnosis {

// How a process stands, as far as the snapshot tells.
struct ProcessOutcome {
  format::Observed what = format::Observed::kNothing;
  std::int64_t observed_ns = 0;   // when that was seen
  std::int64_t last_sign_ns = 0;  // last heartbeat or record: it lived then
  std::optional<int> signal;
  std::optional<int> status;
  bool core = false;
  bool out_of_memory = false;
  // Not 0: of two that have one the lower has ended first, by the kernel's own order.
  std::size_t order = 0;
  bool others_lived = false;  // all others, after it (reader::WitnessedEnd)
  bool hung_up = false;       // MPI ended it for want of its launcher
  // Its launcher killed it since another had ended (killed_with_others.h): what counts is how it stood until then.
  bool followed = false;

  // Dumping core is dying: it makes no call any more. Only kGone is certain.
  bool ended() const {
    return what == format::Observed::kGone || what == format::Observed::kDumping || what == format::Observed::kClosed;
  }
  bool gone() const { return ended() && !followed; }
  // Seen standing still from outside, but not gone.
  bool held() const {
    return what == format::Observed::kStopped || what == format::Observed::kTraced ||
           what == format::Observed::kFrozen || what == format::Observed::kStuck;
  }
  bool exit_known() const { return signal || status; }
  bool polite() const;  // ended by INT, TERM or HUP, or with its launcher: somebody asked it to
  bool orderly() const { return !signal && status == 0; }
  bool violent() const { return exit_known() && !polite() && !orderly(); }
};

struct Process {
  const reader::BoxImage* box = nullptr;
  std::int64_t shift_ns = 0;  // from the box's clock to the view's
  ProcessOutcome outcome;
  std::vector<int> nodes;
  std::unordered_set<std::uint64_t> open_groups;  // their outermost ncclGroupEnd has not been called yet
  std::vector<reader::Call> restored_calls;       // what the image had left out, where it had to be read (whole.h)
  bool cut_off = false;                           // ... and where that could not be read any more, or not all of it
  std::int64_t At(std::int64_t box_ns) const { return box_ns + shift_ns; }
};

// One rank of one communicator, as one box shows it.
struct Member {
  int process = -1;
  int node = -1;  // index into View::nodes, -1 if its job rank cannot be told
  const reader::Communicator* comm = nullptr;
  // Collectives that NCCL has taken: what an open group still collects, and what failed for good, does not count.
  std::uint64_t entered = 0;
  // Enqueued collectives still in the ring, by position. Where the image was sifted and not put back, those left out
  // are missing here, and At() reads them.
  std::vector<const reader::Call*> calls;
  std::vector<const reader::Call*> empties;   // count 0
  std::vector<const reader::Call*> messages;  // sends and receives, by slot
  std::vector<const reader::Call*> probes;    // of MPI, by slot
  const reader::Call* failed = nullptr;       // the last collective that returned an error
  bool history_whole = false;                 // the ring holds all its calls
  reader::LeftOut left_out;                   // of `calls`
  const reader::BoxImage* box = nullptr;
  // Those of left_out that At() has read. Not thread-safe: a view belongs to one diagnosis.
  using Fetched = std::map<std::uint64_t, std::optional<reader::Call>>;
  std::shared_ptr<Fetched> fetched;

  const reader::Call* At(std::uint64_t position) const;
  const reader::Call* Kept(std::uint64_t position) const;   // in `calls`
  const reader::Call* Fetch(std::uint64_t position) const;  // in left_out: a look into the file
  bool alive_in() const;                                    // ready or finalizing: its calls bind others
  bool Outstanding(const reader::Call& call) const;         // launched and marked, and the GPU has not finished it
  bool rank_known() const { return (comm->flags & format::kCommRankUnknown) == 0; }
};

struct CommView {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  std::uint32_t size = 0;  // what most members say
  bool sizes_differ = false;
  bool comparable = true;  // false: grown, or unknown identity: members cannot be matched
  std::string label;
  std::string name;             // for texts: CommunicatorNames::Long
  std::vector<Member> members;  // by rank; only those that a box shows
  std::vector<int> job_ranks;   // by communicator rank, -1 unknown; empty if the size is unknown

  const Member* OfRank(std::uint32_t rank) const;
};

// One job rank. A process has several when its threads or devices are ranks of their own.
struct Node {
  int process = -1;
  int rank = -1;
  std::vector<std::pair<int, int>> memberships;  // (communicator, member)
  const reader::Call* last = nullptr;            // newest call that is not a mere query
  std::int64_t active_ns = 0;                    // last entry or return; 0 never
};

struct View {
  const Snapshot* snapshot = nullptr;
  std::int64_t now_ns = 0;
  std::int64_t realtime_minus_monotonic_ns = 0;
  std::vector<Process> processes;  // by rank, host, pid: independent of the order of the boxes
  std::vector<Node> nodes;         // by job rank
  std::vector<CommView> comms;     // largest first, then by id
  int expected = 0;
  std::unordered_map<int, int> node_of_rank;

  const Member& member(std::pair<int, int> at) const { return comms[at.first].members[at.second]; }
  const Process& process(const Node& node) const { return processes[node.process]; }
  const Process& process(const Member& member) const { return processes[member.process]; }
  const CommView* CommOf(std::uint64_t id) const;  // null: there is none
  // Of an entry of the process's table, as its records name it.
  const CommView* CommOf(const Process& process, std::uint32_t index, std::uint32_t generation) const;
  int JobRank(const CommView& comm, std::uint32_t rank) const;
  // First collective of the member that is not known to have finished; `entered` if all have.
  std::uint64_t Unfinished(const Member& member) const;
  static std::uint64_t UnfinishedOfMpi(const Member& member);
};

View MakeView(const Snapshot& snapshot);
// Its first step.
std::vector<Process> MakeProcesses(const Snapshot& snapshot);
std::string_view ReferenceBoot(const Snapshot& snapshot);  // whose clock is the view's
// Fills in the calls of these members, all of one process.
void FileCalls(Process* process, const std::vector<Member*>& members);

bool IsMessage(const reader::Call& call);         // a send or a receive
bool IsError(const reader::Call& call);           // neither success, in progress nor not returned
std::uint64_t BytesOf(const reader::Call& call);  // count x size of the datatype

}  // namespace ncclwatch::diagnosis
