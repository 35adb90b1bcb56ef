// How much of a place black boxes may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ncclwatch::rundir {

// What a job needs in a directory: one box for each of its ranks on this node, in the largest of `sizes` (bytes of one
// box, falling) with which all of them take at most half of what is free there: the rest is the application's.
struct Need {
  std::uint64_t ranks = 1;  // at least so many will come
  std::vector<std::uint64_t> sizes;
};
struct RoomThere {
  std::string refusal;   // empty: there is room
  std::size_t size = 0;  // index into Need::sizes
  std::string shrunk;    // not empty: why it is not the first size
};
// `joined`: the boxes there are the same job's, and count as its share, so that all its ranks come to one size. A
// quota may speak later than statfs: where there may be one, the room is tried with a real allocation.
RoomThere RoomFor(const std::string& path, const Need& need, bool joined);

}  // namespace ncclwatch::rundir
