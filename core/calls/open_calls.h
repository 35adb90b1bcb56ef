// The calls of MPI that a process is in, on whichever of its threads, as its black box is followed. Messages have no
// GPU marks that would tell who waits for one: that somebody does not come back from a call does.
#pragma once

#include <cstdint>
#include <vector>

#include "core/reader/box.h"

namespace ncclwatch::diagnosis {

class OpenCalls {
 public:
  // Of each record, when it is read first.
  void See(std::uint64_t slot, const reader::Call& call);
  // Looks at them again; true if one is over that was open.
  bool Refresh(const reader::MappedBox& box);
  // Since when one has been open and no thread has made another call, on the box's clock; 0: none is open.
  std::int64_t since_ns() const { return since_ns_; }

 private:
  std::vector<std::uint64_t> slots_;
  std::int64_t since_ns_ = 0;
};

}  // namespace ncclwatch::diagnosis
