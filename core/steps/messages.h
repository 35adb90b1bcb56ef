// Who sends to whom in a step, and how long ranks wait in that. Messages that one rank makes together, in a group, are
// one unit. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

// One message, or those of a group.
struct MessageUnit {
  std::uint64_t id = 0;  // of the group; else its slot plus one; 0: there is no unit
  std::size_t step = 0;  // in which it begins
  std::size_t sends = 0, receives = 0;
  std::vector<std::size_t> to, from;  // peers
  std::uint64_t bytes = 0;            // of the largest
  std::int64_t kernel_ns = -1;        // of the longest; -1: not timed
  std::uint64_t position = 0;         // the highest: of an all-to-all, how many there were before
  reader::Call first;
  // With several others both ways, as experts exchange tokens: all wait for the last one, as in a collective.
  bool is_exchange() const { return sends >= 3 && receives >= 3; }
};

// One rank's messages, in the order of its calls.
class MessageGrouper {
 public:
  // peer: any number that stands for it, SIZE_MAX: not known. Returns the unit that this call has ended.
  MessageUnit Add(const reader::Call& call, std::size_t step, std::size_t peer);
  MessageUnit End() { return std::exchange(open_, {}); }

 private:
  MessageUnit open_;
};

// One rank's messages in one step.
struct StepMessageSum {
  struct Kernels {  // of NCCL
    std::uint32_t units = 0, timed = 0;
    std::int64_t ns = 0, least_ns = 0;  // of those that were timed: the sum, the shortest
  };
  enum class First : std::uint8_t { kNone, kSend, kReceive, kBoth };  // the first unit of the step

  First first = First::kNone;
  std::map<std::size_t, std::uint32_t> sent;  // how many, by peer
  std::map<std::uint64_t, Kernels> kernels;   // by bytes of a unit's largest message
  void Add(const MessageUnit& unit);
};

// One rank's messages in all steps of a table.
struct StepMessages {
  std::map<std::size_t, std::size_t> sent;          // how many to which row
  std::size_t sends_first = 0, receives_first = 0;  // steps that begin with a send alone, a receive alone
  std::int64_t wait_ns = 0;                         // in kernels of NCCL, as far as they were timed, beyond the least
  bool timed = false;                               // ... some were
};

class MessageCounter {
 public:
  void Count(std::size_t row, const StepMessageSum& step);  // peers are rows
  std::vector<StepMessages> Take(std::size_t rows);

 private:
  std::map<std::size_t, StepMessages> of_row_;
  std::map<std::pair<std::size_t, std::uint64_t>, StepMessageSum::Kernels> waits_;  // by row and bytes
  std::map<std::uint64_t, std::int64_t> least_ns_;  // that the kernel of so many bytes took on any rank
};

}  // namespace ncclwatch::diagnosis
