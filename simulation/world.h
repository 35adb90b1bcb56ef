// The simulation of a job on NCCL's terms (docs/softgpu-semantics.md): hosts enqueue and go on, streams are queues, the
// kernels of one communicator run in the order of its calls, a kernel ends when all that it needs has been launched.
//
// No kernel compares what the others do. Nothing is decided by who is first: instants follow from one another, so ranks
// and kernels are worked out in any order, each as far as it can go. What happened by some instant is read off later.
#pragma once

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulation/chance.h"
#include "simulation/workload.h"

// What of the job is simulated, and what is not, stands in tests/README.md.
namespace ncclwatch::simulation {

struct Record {
  std::int64_t entered = 0;
  std::int64_t returned = kNever;
  std::int64_t completed = kNever;  // kBegin: it was over, and the host had waited for that
  std::uint64_t chain = 0;
  std::uint32_t position = 0;
  std::int32_t ticket = -1;
  std::int32_t start = -1;
  std::int32_t comm = -1;  // index into RankHistory::comms
  Function function = Function::kNone;
  std::uint32_t flags = 0;
};

// There is one for each call of a job: 30 million of them are usual.
static_assert(sizeof(Record) == 56);

// What a box tells of a call beside that: who has the recording knows it.
struct Detail {
  std::uint64_t count = 0;
  std::int64_t kernel_ns = 0;  // that its kernel ran, waiting for others included
  std::uint32_t group = 0;
  std::int32_t root = -1;
  std::int32_t result = 0;
  std::uint32_t site = 0;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  std::uint8_t stream = kCompute;
};

// The newest thing in a queue of the GPU: a kernel that has not ended, or when it did.
struct Tail {
  int kernel = -1;
  std::int64_t finish = 0;
};

struct LocalComm {
  int comm = -1;
  std::uint32_t rank = 0;
  std::uint32_t claimed_size = 0;
  std::uint64_t ordinal = 0;  // of its split, as this rank counts
  std::int64_t created = 0;
  std::int64_t ready = kNever;
  std::int64_t finalizing = kNever;
  std::int64_t destroyed = kNever;
  std::int64_t aborted = kNever;
  std::vector<std::int64_t> creations;      // when each creating call on it was made
  std::vector<std::int64_t> tickets;        // when the GPU wrote each end mark
  std::vector<std::int64_t> starts;         // ... and each start mark,
  std::vector<std::uint8_t> start_streams;  // on which stream
  std::uint64_t entered = 0, launched = 0, chain = 0;
  Tail tail;
};

// The device had no memory; kNever: nor later.
struct Refused {
  std::int64_t at = 0, recovered = kNever;
};

// What a rank has done, and what became of it.
struct RankHistory {
  std::vector<Record> records;
  std::vector<Detail> details;  // of those, if the workload wants them
  std::vector<LocalComm> comms;
  std::vector<Refused> refused;
  std::int64_t exited = kNever;  // by itself
  int status = 0;
  std::int64_t killed = kNever, frozen = kNever;
  std::int64_t host_stop = kNever;  // its host does nothing later
  std::int64_t gpu_stop = kNever;   // nor its GPU
  std::int64_t net_stop = kNever;   // nor its transfers to other nodes, which need a thread of the host
  bool done = false;                // went through its whole program
};

class World {
 public:
  explicit World(const Workload& workload);  // which outlives it
  // Before Run: the process is killed then; it is stopped, but not its GPU.
  void Kill(int rank, std::int64_t at) { Of(rank).host_stop = Of(rank).gpu_stop = Of(rank).killed = at; }
  void Freeze(int rank, std::int64_t at) { Of(rank).host_stop = Of(rank).net_stop = Of(rank).frozen = at; }
  void Run();
  // After Run, of a rank that waits for ever: it is ended later than anything that happened.
  void End(int rank, std::int64_t at);
  // It aborts all its communicators, which ends its kernels, and so its GPU writes the marks behind them.
  void Abort(int rank, std::int64_t at);

  int ranks() const { return static_cast<int>(ranks_.size()); }
  const RankHistory& rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  // It waits for a kernel, or for others to make a communicator with it.
  bool waits(int rank) const { return ranks_[static_cast<std::size_t>(rank)].state == RankState::State::kWaiting; }
  bool hung() const;                                    // somebody will never get to the end
  std::int64_t ended() const;                           // nothing happened later
  std::int64_t planted_ns() const { return planted_; }  // kNever: the fault was not reached

 private:
  friend class Causes;
  struct RankState : RankHistory {
    Ops ops;
    std::size_t next = 0;
    int section = -1;
    std::int64_t now = 0;
    enum class State { kRunning, kWaiting, kOver } state = State::kRunning;
    int waits_for = -1;   // kernel
    bool awaits = false;  // in its call of MPI
    std::uint64_t rolls = 0;
    std::uint32_t group = 0;
    std::vector<std::pair<Op, std::size_t>> grouped;  // with their records
    std::size_t creating = 0;                         // record
    int created = -1;                                 // index into comms
    Tail streams[kStreams];
    std::unordered_map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> peers;  // sends and receives
    std::unordered_map<std::size_t, Tail> begun;      // of MPI, by record: what nobody has waited for yet
    std::unordered_map<int, std::uint64_t> meetings;  // by communicator
  };
  struct Task {
    bool message = false;
    std::uint64_t number = 0;  // of a collective, among those of the communicator; of a message, of all launches
    Op op;
  };
  struct Kernel {
    int rank = -1;
    int comm = -1;  // of the rank; -1: of the application
    std::int64_t ready = 0, length = 0, finish = 0;
    std::int64_t record = -1;  // kBegin: which it is
    int needs = 0, tasks_left = 0;
    // Without memory elsewhere: most kernels have one of each.
    template <typename T, std::size_t most = 1>
    using Few = boost::container::small_vector<T, most>;
    Few<Task> tasks;
    Few<std::size_t> records;                 // of its calls
    Few<int, 4> next;                         // kernels that need it
    Few<std::pair<int, std::size_t>> marks;   // communicator of the rank, ticket
    Few<std::pair<int, std::size_t>> starts;  // likewise, of those right behind it
  };
  struct Arrival {
    int kernel = -1;
    int rank = -1;
    std::uint64_t amount = 0;
    bool over = false;
    std::int64_t ready = 0;
  };
  struct Instance {
    std::vector<Arrival> arrivals;
    std::int64_t ready = 0;
    bool differs = false, stalls = false;
    Op first;
    // Of a chain with room in its buffers: arrivals by their place in it, and how many have passed the data on.
    std::vector<int> chain;
    std::size_t passed = 0;
    std::int64_t chain_ready = 0;
  };
  struct Side {
    int kernel = -1;
    std::int64_t ready = 0;
    std::uint64_t bytes = 0;
    bool over = false;
    bool synchronous = false;
    double longer = 1;  // Op::longer
  };
  struct Pair {
    std::deque<Side> sends, receives;
  };
  struct Meeting {
    std::vector<int> ranks;
    std::int64_t last = 0;
    bool broken = false;
  };

  using Calls = std::span<const std::pair<Op, std::size_t>>;  // with their records

  RankState& Of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Comm& CommAt(int comm) const { return workload_.comms[static_cast<std::size_t>(comm)]; }
  std::int64_t Roll(int rank, std::int64_t ns);  // about so long

  void RunHost(int rank);
  void Execute(int rank, const Op& op);
  void LaunchOwn(int rank, const Op& op, std::int64_t length);
  void Call(int rank, const Op& op);
  void GroupEnd(int rank, const Op& op);
  void Create(int rank, const Op& op);
  void Meet(std::pair<int, std::uint64_t> key, int rank, int needed, bool broken);
  void Destroy(int rank, const Op& op);
  void Begin(int rank, const Op& op);
  void Meet(int rank, const Op& op);
  void Await(int rank, const Op& op);
  void Leave(int rank, const Op& op);
  bool WaitFor(int rank, const Tail& tail);
  void Wake(int rank, std::int64_t at);
  std::size_t Enter(int rank, const Op& op, int comm);
  // Of a record; where details are not wanted, of none.
  Detail& DetailOf(RankState& rank, std::size_t record) { return workload_.details ? rank.details[record] : nobodys_; }
  void EnterCollective(LocalComm* comm, const Op& op, Record* record);
  int LocalOf(int rank, int comm) const;

  void Launch(int rank, Calls calls, std::int64_t at);
  void LaunchOn(int rank, int comm, Calls calls, std::int64_t at);
  void AddTasks(Calls calls, LocalComm* comm, Kernel* kernel);
  void MarkStarts(int rank, Calls calls, std::int64_t at);
  void Mark(int rank, Calls calls);
  int NewKernel(int rank, std::int64_t at);
  void Need(int kernel, const Tail& tail);
  void BeginKernel(int kernel);
  void ArriveCollective(int kernel, const Task& task);
  void ArriveMessage(int kernel, const Task& task);
  void ArriveMpiMessage(int kernel, const Task& task);
  void EndMpiMessages(Pair* pair, double stretch);
  void ArriveMpiCollective(const Op& op, Instance* instance);
  std::int64_t CollectiveNs(const Op& op) const;
  void Forget(int comm, std::uint64_t number);
  void PassOn(Instance* instance, std::size_t arrival);
  void EndInstance(int comm, std::uint64_t number, Instance* instance);
  void EndMessages(int comm, int from, int to, Pair* pair);
  void EndTask(int kernel, std::int64_t at);
  void EndKernel(int kernel, std::int64_t at);
  std::int64_t StopOf(int comm, int rank) const;

  const Workload& workload_;
  Chance chance_;
  std::vector<RankState> ranks_;
  std::vector<char> spans_nodes_;  // by communicator
  std::vector<std::deque<Instance>> instances_;
  std::vector<std::uint64_t> first_instance_;      // ended ones are forgotten
  std::unordered_map<std::uint64_t, Pair> pairs_;  // of MPI by the tag too
  std::map<std::pair<int, std::uint64_t>, Meeting> meetings_;
  std::vector<Kernel> kernels_;
  std::vector<int> free_, begun_;
  std::vector<std::vector<Arrival>> arrivals_;  // to be used again, for their memory
  std::deque<int> runnable_;                    // from the back
  Detail nobodys_;
  std::int64_t planted_ = kNever;
  std::uint64_t messages_ = 0;  // launched
};

}  // namespace ncclwatch::simulation
