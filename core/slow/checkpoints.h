// Checkpoints that do not come any more. Pure.
#pragma once

#include <optional>
#include <vector>

#include "core/slow/number_finding.h"
#include "core/slow/series.h"

namespace ncclwatch::diagnosis {

// Events of type "checkpoint", which tell themselves how far apart they are. now_ns: on the view's clock.
std::optional<NumberFinding> FindCheckpointOverdue(const std::vector<RankNumbers>& ranks, std::int64_t now_ns);

}  // namespace ncclwatch::diagnosis
