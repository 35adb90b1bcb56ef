// Where the time of each rank's GPU went, of recordings that hold what it did: kernels, copies, communication.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

// Of a stretch of time of one rank: compute + exposed + copy + idle is its duration.
struct TimeParts {
  std::int64_t duration_ns = 0;
  std::int64_t compute_ns = 0;        // computing kernels ran
  std::int64_t exposed_ns = 0;        // NCCL's ran, and none of those
  std::int64_t wait_ns = 0;           // of that: the kernel had begun, and others' of the same call had not
  std::int64_t copy_ns = 0;           // only copies and fills ran
  std::int64_t idle_ns = 0;           // nothing ran
  std::int64_t communication_ns = 0;  // NCCL's kernels ran, covered by computing ones or not
  std::int64_t overlap_ns = 0;        // of that: covered
  std::int64_t late_ns = 0;           // by how much others waited longer for it than it for them
};

struct RankStep {
  std::int64_t number = 0, began_ns = 0;  // CLOCK_REALTIME
  TimeParts parts;
};

struct RankBreakdown {
  int rank = -1;
  std::int64_t began_ns = 0;  // of the first operation, CLOCK_REALTIME
  TimeParts whole;            // from there to the end of the last one
  std::vector<RankStep> steps;
};

struct Breakdown {
  std::vector<RankBreakdown> ranks;  // ascending; empty: the recording holds no operations of a GPU
  std::vector<reader::Failure> failures;
};

Breakdown BreakdownOf(const Recording& recording);

// `"steps"` as of the calls' steps, and `"ranks"`: the same over the whole trace.
nlohmann::ordered_json StepsJson(const Breakdown& breakdown);
nlohmann::ordered_json RanksJson(const Breakdown& breakdown);
// The newest `most` steps (0: all), and the ranks.
std::string BreakdownText(const Breakdown& breakdown, std::size_t most);

}  // namespace ncclwatch::analyzer
