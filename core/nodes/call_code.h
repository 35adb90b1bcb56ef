// Calls on their way to the hub: each told by what differs from the call before it on the same communicator. Pure;
// nothing here trusts a byte.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "core/nodes/bytes.h"
#include "core/reader/image.h"

namespace ncclwatch::nodes {

// What the calls before tell: writer and reader keep the same. One for each list of calls.
class CallMemory {
 public:
  void Write(const reader::Call& call, Writer* to);
  const reader::Call& Read(Reader* from);  // until the next one
  // As if that call had been the one before.
  void Begin(const reader::Call& before);

 private:
  reader::Call& On(std::uint32_t communicator, std::uint32_t generation) {
    // Mostly the one before.
    if (!on_ || on_->communicator != communicator || on_->generation != generation) {
      on_ = &last_[{communicator, generation}];
      on_->communicator = communicator;
      on_->generation = generation;
    }
    return *on_;
  }
  std::uint8_t BitsOf(const reader::Call& call, const reader::Call& last) const;

  std::map<std::pair<std::uint32_t, std::uint32_t>, reader::Call> last_;  // by communicator and generation
  struct Before {
    std::uint64_t slot = 0;
    std::int64_t entered_ns = 0;
    std::uint32_t communicator = format::kNoCommunicator, generation = 0;
  };
  bool any_ = false;
  Before before_;
  reader::Call* on_ = nullptr;  // in last_
};

// One call alone, its instants told from a near one.
void WriteCall(const reader::Call& call, std::int64_t base_ns, Writer* to);
reader::Call ReadCall(std::int64_t base_ns, Reader* from);

}  // namespace ncclwatch::nodes
