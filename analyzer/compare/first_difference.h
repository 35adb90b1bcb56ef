// The first call in which two runs of one program diverge.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>

namespace ncclwatch::compare {

struct FirstDifference {
  int rank = 0;
  std::uint64_t call = 0;     // of that rank, from 0
  std::string before, after;  // "AllReduce, 1024 float32, sum"; empty: the run has no more calls
};

// By rank and order of calls; times, addresses and results are not compared. None: they make the same calls, or one of
// them has lost calls there. Both are run directories or recordings.
std::optional<FirstDifference> FindFirstDifference(const std::string& before, const std::string& after,
                                                   std::string* why_not);

}  // namespace ncclwatch::compare
