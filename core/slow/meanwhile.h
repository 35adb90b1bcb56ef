// What a straggler did while the others waited for it, as its node's leader had it sampled: in words, and as a kind of
// its own where input or a checkpoint is the reason. Pure.
#pragma once

#include <vector>

#include "core/model/finding.h"
#include "core/reader/beside/meanwhile.h"

namespace ncclwatch::diagnosis {

// Changes a finding of kStraggler. A cause is named only if it covers kLeastCovered of the samples of each culprit that
// has any; else the finding says that it is unattributed, and what was seen.
inline constexpr double kLeastCovered = 0.8;
void ExplainStraggler(const std::vector<reader::Meanwhile>& meanwhile, Finding* finding);

}  // namespace ncclwatch::diagnosis
