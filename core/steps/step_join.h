// What ranks tell of their steps, each by itself, joined: who waited for whom, and how long data took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/calls/mpi_message.h"
#include "core/steps/step_table.h"
#include "core/view/view.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::diagnosis {

std::int64_t Middle(std::vector<std::int64_t> values);  // the lower median; of none undefined

// One rank's arrival at a collective, or at its side of a message.
struct Arrival {
  std::size_t row = 0, step = 0;  // of the table
  std::int64_t entered_ns = 0;    // on the view's clock
  std::int64_t inside_ns = -1;    // of blocking calls
  std::int64_t kernel_ns = -1;    // of NCCL's kernel, where it was timed
  functions::Function function{};
  std::uint64_t bytes = 0;
  // So many calls: it and those before it on the communicator. inside_ns is then the sum.
  std::uint32_t calls = 1;
  std::uint32_t alike = 1;  // the last of those, with this function and size
};

// Of MPI: its caller waits in it. Of what has returned; of the two records of an MPI_Sendrecv the first one.
inline bool Blocks(const reader::Call& call) {
  return functions::IsMpi(call.function) && call.returned_ns != 0 && (call.flags & format::kRequest) == 0 &&
         !IsSecondHalf(call);
}
inline std::int64_t InsideNs(const reader::Call& call) {
  return call.returned_ns > call.entered_ns ? call.returned_ns - call.entered_ns : 0;
}
// Of the call's kernel, -1: not timed.
inline std::int64_t KernelNs(const reader::Call& call) {
  return call.kernel.clock == format::KernelClock::kNone ? -1 : static_cast<std::int64_t>(call.kernel.ns);
}
// Nobody arrives at it together with others when it is called.
inline bool MeetsNobody(const reader::Call& call) { return (call.flags & (format::kEmpty | format::kOneRank)) != 0; }

class StepJoin {
 public:
  explicit StepJoin(const View& view);

  // The next row, ascending by rank.
  void AddRow(const Node& node, std::size_t steps);
  StepTable& table() { return table_; }
  StepPart& part(std::size_t row, std::size_t step) { return table_.parts[row][step]; }

  const CommView* CommOf(std::uint64_t id);  // the view's, found quickly

  // Two job ranks send messages to one another.
  void AddPair(int rank, int peer) { pairs_.emplace(rank, peer); }
  // For all: its members exchange messages, with whom is not known.
  void AddChained(std::uint64_t communicator) { chained_[communicator] = true; }
  void AddCollective(std::uint64_t communicator, std::uint64_t position, const Arrival& arrival) {
    StepPart& its = part(arrival.row, arrival.step);
    its.collectives += arrival.calls;
    its.bytes += arrival.bytes * arrival.alike;
    timed_ = timed_ || IsTimed(arrival);
    table_.enqueued = table_.enqueued || !functions::IsMpi(arrival.function);
    collectives_[{communicator, position}].push_back(arrival);
  }
  // Both sides of a message of NCCL have the same position. Ranks in the communicator.
  void AddMessage(std::uint64_t communicator, std::uint32_t from, std::uint32_t to, std::uint64_t position,
                  const Arrival& arrival) {
    part(arrival.row, arrival.step).bytes += arrival.bytes * arrival.alike;
    timed_ = timed_ || IsTimed(arrival);
    messages_[{communicator, from, to, position}].push_back(arrival);
  }

  // Messages of all with all, which are met like a collective: those of one communicator are counted apart.
  void AddExchange(std::uint64_t communicator, std::uint64_t number, const Arrival& arrival) {
    AddCollective(communicator, number | kExchange, arrival);
  }
  std::size_t RowOf(int rank) const;  // SIZE_MAX: there is none

  StepTable Make();

 private:
  static constexpr std::uint64_t kExchange = std::uint64_t{1} << 63;

  static bool IsTimed(const Arrival& arrival) { return arrival.kernel_ns >= 0 || arrival.inside_ns >= 0; }
  bool OnOneNode(const std::vector<Arrival>& arrivals) const;
  std::vector<std::int64_t> LatenessOf(const std::vector<Arrival>& arrivals, std::int64_t* doubt_ns) const;
  void AddTransfer(std::uint64_t communicator, bool is_message, const std::vector<Arrival>& arrivals);
  void AddComparable(std::uint64_t communicator, const std::vector<Arrival>& arrivals);
  void AddMeeting(std::uint64_t communicator, const std::vector<Arrival>& arrivals);
  void FindOccupied();
  std::int64_t OwnExcessNs(std::size_t row, std::size_t step, const std::vector<std::int64_t>& usual_ns) const;
  std::vector<std::int64_t> UsualComputeNs() const;
  void AddEnqueued();
  std::int64_t OccupiedNs(const Arrival& arrival, std::int64_t late_ns) const;
  void AddKernels(std::uint64_t communicator, const std::vector<Arrival>& arrivals);
  void SetWork();
  void AddLate(const Arrival& arrival, std::int64_t late_ns, std::int64_t wait_ns, std::int64_t* among_peers);
  bool IsChained(const CommView& comm);
  void SetPeers();

  struct Key {
    std::uint64_t communicator = 0, position = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return format::Mix(key.communicator, key.position); }
  };
  struct Enqueued {
    std::int64_t late_ns = 0, wait_ns = 0;
    bool requested = false;  // by MPI: others wait for it only where they wait for their requests
  };

  const View& view_;
  StepTable table_;
  std::map<std::string, int> hosts_;
  struct Clock {
    int boot = 0;         // equal numbers are one clock
    bool agreed = false;  // the job's leaders know it
  };
  std::map<std::string, Clock, std::less<>> clocks_;  // by boot
  std::vector<Clock> clock_of_row_;
  bool timed_ = false;                               // there is something to make transfers of
  std::set<std::pair<int, int>> pairs_;              // job ranks, from either side
  std::unordered_map<std::uint64_t, bool> chained_;  // by communicator
  std::unordered_map<std::uint64_t, const CommView*> comms_;
  std::unordered_map<Key, std::vector<Arrival>, KeyHash> collectives_;
  // Communicator, ranks in it from and to, position.
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t>, std::vector<Arrival>> messages_;
  std::map<std::tuple<std::uint64_t, functions::Function, std::uint64_t, std::vector<std::size_t>>, StepTransfers>
      transfers_;
  std::vector<std::vector<Enqueued>> enqueued_;  // by row, then by step
  // By row, ascending: when it waited or moved data in a collective, on the view's clock.
  struct Interval {
    std::int64_t begin_ns = 0, end_ns = 0;
  };
  std::vector<std::vector<Interval>> occupied_;
  // By communicator, row and step: how late among its members, as calls and as kernels tell.
  struct LateOn {
    std::vector<std::int64_t> late_ns, kernel_late_ns;
  };
  std::map<std::uint64_t, std::unordered_map<std::size_t, LateOn>> late_on_;
};

}  // namespace ncclwatch::diagnosis
