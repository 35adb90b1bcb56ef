// How long each rank's steps took, what of that it waited, and how late it came to where the others waited for it.
//
// In a collective all wait for the last one. Of blocking calls on several nodes the last one is who was in the call the
// shortest time: no clock has to agree. On one node, and of calls that only enqueue, it is who called last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/reader/image.h"
#include "core/steps/messages.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

struct StepPart {
  std::uint64_t first_slot = 0, end_slot = 0;  // of its calls
  std::int64_t began_ns = 0;                   // on the view's clock
  std::int64_t duration_ns = 0;                // to the beginning of the next step; 0: the rank has none of that number
  std::int64_t exposed_ns = 0;                 // in calls that move data, all being there
  std::int64_t wait_ns = 0;                    // for others
  std::int64_t message_ns = 0;                 // in blocking calls for messages, requests and probes
  // How much later than the middle of the members it came to collectives; negative: earlier. Calls that enqueue alone
  // are late once in a step, however many follow one another.
  std::int64_t late_ns = 0;
  // The same by the times of NCCL's kernels, of the `timed` of its `collectives` that were timed on all members.
  std::int64_t kernel_late_ns = 0;
  std::int64_t kernel_wait_ns = 0;  // that they waited for others
  std::uint32_t collectives = 0, timed = 0;
  std::uint64_t bytes = 0;  // that its calls pass
  std::int64_t waiting_ns() const { return wait_ns + message_ns; }
  std::int64_t compute_ns() const { return duration_ns - exposed_ns - wait_ns - message_ns; }
};

// One communicator: how late its members came to its collectives alone.
struct StepPeers {
  std::vector<std::size_t> rows;                   // of the table, ascending
  std::vector<std::vector<std::int64_t>> late_ns;  // by those, then by step
  std::vector<std::vector<std::int64_t>> kernel_late_ns;
};

// The calls of one communicator, or from one rank to another, that are alike, and how long their data took: once all
// were there. Of NCCL as far as its kernels were timed, of MPI of what blocks.
struct StepTransfers {
  functions::Function function{};
  std::uint64_t bytes = 0;        // that one rank passes
  std::vector<std::size_t> rows;  // who took part, ascending
  bool is_message = false;        // from the first one to the second one, or back
  std::size_t calls = 0;          // in the steps of the table, timed or not
  struct Timed {
    std::size_t step = 0;
    std::int64_t ns = 0;
  };
  std::vector<Timed> times;  // by step
};

struct StepTable {
  std::uint64_t first = 0;                   // number of the first step
  std::vector<std::uint64_t> numbers;        // of all; empty: one after the other from `first` on
  std::vector<int> ranks;                    // job ranks, ascending
  std::vector<std::vector<StepPart>> parts;  // by rank, then by step; all rows are as long
  std::vector<int> hosts;                    // by rank: equal numbers are one host
  std::vector<std::string> host_names;       // by those
  std::vector<int> rails;                    // by rank: its number on its host, -1 unknown
  std::vector<StepPeers> peers;
  std::vector<StepTransfers> transfers;
  std::vector<StepMessages> messages;  // by rank; empty: nobody counted them
  std::uint64_t stretch = 0;           // calls repeat no steps: "steps" are so many collectives each
  bool enqueued = false;               // some collectives are NCCL's: their data need not be there when they return
  std::vector<double> work;            // by step: the `tokens` that the program has said of it; empty: none
  std::uint64_t NumberOf(std::size_t step) const { return numbers.empty() ? first + step : numbers[step]; }
  std::size_t steps() const { return parts.empty() ? 0 : parts.front().size(); }
};

// Where calls repeat no steps: so many collectives of the largest communicator that ranks have in common are a stretch.
inline constexpr std::uint64_t kStretch = 16;

// Of the newest `most_calls` of each rank. Empty: there are neither steps nor stretches that ranks have in common.
StepTable MakeStepTable(const View& view, std::size_t most_calls);
// Of stretches, whatever the calls repeat.
StepTable MakeStretchTable(const View& view, std::size_t most_calls);

}  // namespace ncclwatch::diagnosis
