// A recording as the simulation takes it: what each rank called, in order, with the time that its host spent between.
//
// Each recorded call becomes exactly one record of the rank's history, so that the n-th record is the n-th call.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/recording/recording.h"
#include "simulation/workload.h"

namespace ncclwatch::analyzer {

// What is to be otherwise than it was.
struct WhatIf {
  std::map<int, std::int64_t> delays;               // rank: it begins so many ns later
  std::map<int, double> slower;                     // rank: what lies between its calls takes this share longer
  std::set<std::pair<int, std::uint64_t>> dropped;  // rank and number of a call that it does not make
  struct Link {
    std::string one, other;  // hosts
    double share = 1;        // of the bandwidth that is left
  };
  std::vector<Link> links;
  std::set<int> ranks;                     // these job ranks alone, and communicators of them; empty: all
  std::vector<std::string> communicators;  // these alone: label, or beginning of the identity; empty: all
  // By rank of the job these calls alone, [first, second), and what makes and ends communicators; none: all.
  std::optional<std::map<int, std::pair<std::uint64_t, std::uint64_t>>> calls;
  bool no_gaps = false;  // nothing lies between calls
};

// A call of MPI that was refused for its arguments, and that no other rank met.
bool WasRefused(const reader::Call& call);

// Makes a communicator from the one that it speaks of. ncclCommInitRank and its like speak of what they make.
bool MakesFromParent(const reader::Call& call);

class CallTranslator;

class RecordedProgram : public simulation::Workload {
 public:
  // The recording outlives it. An error: it cannot be replayed, and why.
  static absl::StatusOr<std::unique_ptr<RecordedProgram>> Make(const Recording& recording, WhatIf what_if,
                                                               const simulation::Costs& costs);
  ~RecordedProgram() override;

  bool Next(int rank, int section, simulation::Ops* ops) const override;
  std::int64_t Begins(int rank) const override;
  std::size_t Calls(int rank) const override { return process(rank) ? process(rank)->end_slot() : 0; }
  std::vector<int> Has(int rank) const override { return has_[static_cast<std::size_t>(rank)]; }
  int node_of(int rank) const override { return nodes_[static_cast<std::size_t>(rank)]; }

  // Null: of this rank there is no recording, so it does nothing.
  const ProcessRecording* process(int rank) const { return sources_[static_cast<std::size_t>(rank)].process; }
  std::int64_t began_ns() const { return began_ns_; }  // CLOCK_REALTIME of the instant 0 of the simulation
  // Whether the call has no place in the replay; id: of its communicator, 0: it has none.
  bool LeavesOut(int rank, const reader::Call& call, std::uint64_t id) const;
  // Whether it is of the wanted steps: what lies before others takes no time.
  bool IsOfWantedSteps(int rank, std::uint64_t slot) const;
  int comm_of(std::uint64_t id) const;  // -1: none, or not chosen
  bool IsOfMpi(int comm) const { return of_mpi_[static_cast<std::size_t>(comm)]; }
  // The communicator that a split or the like gave to the rank; -1: none.
  int ChildOf(std::uint64_t parent, std::uint64_t ordinal, int rank) const;
  // What lay between two calls of the rank, as it is to be.
  std::int64_t Gap(int rank, std::int64_t recorded_ns) const;
  std::uint64_t left_out(int rank) const { return sources_[static_cast<std::size_t>(rank)].left_out; }
  bool stood_still() const { return stood_still_; }
  double Stretch(int comm, int from, int to) const override;
  const std::vector<std::uint64_t>& comm_ids() const { return comm_ids_; }
  // Once the simulation has stopped: what is left of the pieces that it had begun. It may be damaged, and what they say
  // below is told by pieces.
  void ReadRest() const;
  // What the model does not know of, by operation: such calls take as long as they took.
  const std::map<std::string, std::uint64_t>& not_modelled() const { return not_modelled_; }
  // Job ranks whose calls came from several threads; they are replayed as if one thread had made them.
  const std::set<int>& threaded() const { return threaded_; }
  // By job rank and communicator that it does not have: the first call that is left out for that.
  const std::map<std::pair<int, std::uint64_t>, std::uint64_t>& lost() const { return lost_; }
  const std::vector<reader::Failure>& failures() const { return failures_; }

 private:
  friend class CallTranslator;
  struct Source {
    const ProcessRecording* process = nullptr;
    std::unique_ptr<PieceReader> pieces;
    std::unique_ptr<CallTranslator> translator;  // of the piece that has begun; null: none has
    std::int64_t before_ns = 0;                  // when the call before had ended
    std::uint64_t calls = 0;                     // translated so far
    std::uint64_t left_out = 0;                  // of those
    std::uint32_t thread = 0;                    // that made the first of them
    int group_depth = 0;
    absl::flat_hash_map<std::uint64_t, std::uint8_t> streams;
    std::pair<std::uint64_t, std::uint8_t> last_stream;                      // of those
    absl::flat_hash_map<std::uint64_t, std::vector<std::uint64_t>> awaited;  // by the slot of the call that waits
    std::int64_t exchange = -1;                                              // the first half of an MPI_Sendrecv
    absl::flat_hash_set<int> held;                                           // communicators that the rank has by now
  };

  explicit RecordedProgram(WhatIf what_if);
  absl::Status AddProcesses(const Recording& recording);
  absl::Status AddCommunicators();
  bool IsChosen(std::size_t comm) const;
  double StretchOf(const std::vector<int>& members) const;
  absl::Status AddLinks(const std::map<std::string, int>& hosts);

  const WhatIf what_if_;
  bool stood_still_ = false;  // the recording has a verdict: what its GPUs had not finished by then never ends
  std::int64_t began_ns_ = 0;
  std::vector<int> nodes_;
  std::vector<std::vector<int>> has_;  // by rank: communicators of MPI, and splits of what is not chosen
  std::vector<std::uint64_t> comm_ids_;
  std::vector<bool> chosen_, of_mpi_;                // of comms
  std::vector<double> stretches_;                    // of comms
  std::map<std::pair<int, int>, double> stretched_;  // by nodes
  absl::flat_hash_map<std::uint64_t, int> comm_of_;
  absl::flat_hash_map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::uint64_t>>
      children_;  // parent, ordinal
  simulation::Costs costs_;
  mutable std::vector<Source> sources_;
  mutable std::map<std::string, std::uint64_t> not_modelled_;
  mutable std::set<int> threaded_;
  mutable std::map<std::pair<int, std::uint64_t>, std::uint64_t> lost_;
  mutable std::vector<reader::Failure> failures_;
};

}  // namespace ncclwatch::analyzer
