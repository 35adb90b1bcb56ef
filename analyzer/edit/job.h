// A recorded job in memory, as it might have been: from which ranks and calls can be taken away. What is left is
// numbered anew and reads like a recording of a smaller job.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

struct Job {
  std::vector<reader::BoxImage> boxes;  // with all calls, slots from 0 on
  std::vector<int> was;                 // by job rank: which one it is in the recording
};

using CallSet = std::set<std::pair<std::size_t, std::uint64_t>>;  // index of a box, slot

inline constexpr std::uint64_t kMostCalls = 10'000'000;  // of a job in memory: 2 gigabytes

// All of the recording, of which no call is missing. Out of range: it has more calls than `most`.
absl::StatusOr<Job> LoadJob(const Recording& recording, std::uint64_t most);

// Requests that are left are waited for where they were; a wait for none is left.
Job WithoutCalls(const Job& job, const CallSet& calls);

// `ranks`: of the job as it is. Their messages at the other end go too.
Job WithoutRanks(const Job& job, const std::set<int>& ranks);

}  // namespace ncclwatch::analyzer
