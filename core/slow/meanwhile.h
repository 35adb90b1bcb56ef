// What a straggler did while the others waited for it, as its node's leader had it sampled: in words, and as a kind of
// its own where input or a checkpoint is the reason. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/reader/beside/meanwhile.h"

namespace ncclwatch::diagnosis {

// Changes a finding of kStraggler. A cause is named only if it covers kLeastCovered of the samples of each culprit that
// has any; else the finding says that it is unattributed, and what was seen.
inline constexpr double kLeastCovered = 0.8;
void ExplainStraggler(const std::vector<reader::Meanwhile>& meanwhile, Finding* finding);

// Input that ranks wait for, no single one more than the others, by what several processes were seen doing at random
// times.
struct StarvedJob {
  std::size_t processes = 0;  // that were looked at
  double share = 0;           // of the time, that they read on average
  std::string words;          // how most of it looks: "in read of ..."; may be empty
  std::vector<std::string> where;
};
// None: fewer than two were looked at, or many of them hardly read.
std::optional<StarvedJob> FindStarvedJob(const std::vector<reader::Meanwhile>& meanwhile);

}  // namespace ncclwatch::diagnosis
