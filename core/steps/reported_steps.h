// What a node tells of its ranks' steps while the job runs: constant in size, whatever the job does in a step. Told
// steps of all nodes, joined, are the same table as MakeStepTable's, so the same is found in them.
//
// Of fast loops only some steps are told, those whose number has a hash that is a multiple of a power of two: ranks that
// never speak to one another choose the same ones. Multiples of the number itself would miss what happens in every
// twentieth step. Of many calls on one communicator only some are, each with the sum of those before
// it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/steps/step_join.h"
#include "core/steps/step_table.h"
#include "ncclwatch/format/fingerprint.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

inline constexpr std::size_t kMostArrivals = 24;           // of one rank in one step
inline constexpr std::size_t kMostArrivalsOfAChannel = 8;  // of those
inline constexpr std::size_t kMostKinds = 64;              // of arrivals, of one rank
inline constexpr std::size_t kMostPeers = 16;              // of one rank; with more: with anybody
inline constexpr std::size_t kMostSizes = 8;               // of messages, of one rank in one step

// Collectives of one communicator, or NCCL's messages to or from one peer: an entry of the box's table.
struct ReportedChannel {
  std::uint32_t communicator = 0, generation = 0;
  std::int32_t peer = -1;  // rank in it; -1: collectives
  bool sends = false;
  bool operator==(const ReportedChannel&) const = default;
};

// What comes back in every step.
struct ReportedKind {
  ReportedChannel channel;
  functions::Function function{};
  std::uint64_t bytes = 0;
  std::uint32_t calls = 1, alike = 1;  // Arrival
  bool operator==(const ReportedKind&) const = default;
};

struct ReportedArrival {
  std::uint64_t position = 0;
  std::uint32_t entered = 0;  // after the step began; all in units of kReportedUnit_ns
  std::uint32_t inside = 0;   // plus one; 0: it does not block
  std::uint32_t kernel = 0;   // plus one; 0: it was not timed
  std::uint16_t kind = 0;     // index into ReportedRank::kinds
};
// It is among those of which one in 2^n is told, for n up to this.
inline int Roundness(std::uint64_t number) { return std::countr_zero(format::Mix(number, 0)); }

inline constexpr std::int64_t kReportedUnit_ns = 100;
inline constexpr std::uint32_t kMostUnits = UINT32_MAX - 1;

struct ReportedStep {
  std::uint64_t number = 0;
  std::int64_t began_ns = 0;  // CLOCK_MONOTONIC of its node
  std::int64_t duration_ns = 0, exposed_ns = 0, message_ns = 0;
  std::vector<ReportedArrival> arrivals;
  StepMessageSum messages;  // to which of ReportedRank::peers
};

struct ReportedPeer {  // that messages are exchanged with
  std::uint32_t communicator = 0, generation = 0;
  std::int32_t rank = -1;
  bool operator==(const ReportedPeer&) const = default;
};

struct ReportedRank {
  std::string boot_id;
  std::uint64_t pid_namespace = 0, start_time = 0;
  std::uint32_t pid = 0;
  bool many_peers = false;
  bool stretches = false;  // Loop::stretches
  std::vector<ReportedKind> kinds;
  std::vector<ReportedPeer> peers;
  std::vector<ReportedStep> steps;
};

// The steps of a job that were told last, older ones ever more sparsely. One thread.
class ReportedSteps {
 public:
  void Take(ReportedRank reported);
  void SetMost(std::size_t steps) { most_ = steps; }  // of each rank
  // Of those that the view has. Empty: fewer than two ranks tell the same steps.
  StepTable Table(const View& view) const;

 private:
  struct Rank {
    ReportedRank facts;  // without steps
    std::deque<ReportedStep> steps;
  };
  using Key = std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint32_t>;
  struct Row {
    const Node* node = nullptr;
    const Process* process = nullptr;
    const Rank* rank = nullptr;
  };

  void Thin(std::deque<ReportedStep>* steps) const;
  std::vector<Row> RowsOf(const View& view) const;

  std::size_t most_ = 256;
  std::map<Key, Rank> ranks_;
};

}  // namespace ncclwatch::diagnosis
