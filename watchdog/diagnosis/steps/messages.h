// Who sends to whom in a step, and how long ranks wait in that: the messages of each rank one after another, those of
// one group together. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "watchdog/reader/image.h"

namespace ncclwatch::diagnosis {

// One rank's messages, of all steps of the table.
struct StepMessages {
  std::map<std::size_t, std::size_t> sent;          // how many to which row
  std::size_t sends_first = 0, receives_first = 0;  // steps that begin with a send alone, a receive alone
  std::int64_t wait_ns = 0;                         // in kernels of NCCL, as far as they were timed, beyond the least
  bool timed = false;                               // ... some were
};

// Messages that one rank makes together: one, or those of a group.
struct MessageUnit {
  std::size_t row = SIZE_MAX, step = 0;  // SIZE_MAX: there is none
  std::uint64_t id = 0;                  // of the group; else the call's slot
  std::size_t sends = 0, receives = 0;
  std::vector<std::size_t> to, from;  // rows
  std::uint64_t bytes = 0;            // of the largest
  std::int64_t kernel_ns = -1;        // of the longest; -1: not timed
  const reader::Call* first = nullptr;
  std::uint64_t position = 0;  // the highest: of an all-to-all, how many there were before
  // With several others both ways, as experts exchange tokens: all wait for the last one, as in a collective.
  bool is_exchange() const { return sends >= 3 && receives >= 3; }
};

class MessageCounter {
 public:
  // In the order of the calls, rank by rank. Returns the unit that this call has ended, if it has: row < SIZE_MAX.
  MessageUnit Add(const reader::Call& call, std::size_t row, std::size_t step, std::size_t peer);
  MessageUnit End();  // of the last one
  void Count(const MessageUnit& unit);
  std::vector<StepMessages> Take(std::size_t rows);

 private:
  struct Waits {
    std::size_t units = 0, timed = 0;
    std::int64_t ns = 0;
  };
  MessageUnit open_;
  std::pair<std::size_t, std::size_t> begun_{SIZE_MAX, 0};  // row and step whose first unit has been counted
  std::map<std::size_t, StepMessages> of_row_;
  std::map<std::pair<std::size_t, std::uint64_t>, Waits> waits_;  // by row and bytes
  std::map<std::uint64_t, std::int64_t> least_ns_;                // that the kernel of so many bytes took
};

}  // namespace ncclwatch::diagnosis
