// Calls of a process on their way through a merge, in a tenth of their memory: a job has thousands of processes, and of
// each a piece has to be at hand.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::analyzer {

class PackedCalls {
 public:
  // Those of `calls`, in this order. std::bad_alloc.
  PackedCalls(const std::vector<reader::Call>& calls, const std::vector<std::uint32_t>& order);
  // The next few; empty: there are no more.
  std::vector<reader::Call> TakeSlice();
  static constexpr std::size_t kSlice = 1024;

 private:
  struct Slice {
    std::size_t calls = 0, bytes = 0;  // unpacked
    std::string packed;
  };
  std::deque<Slice> slices_;
};

}  // namespace ncclwatch::analyzer
