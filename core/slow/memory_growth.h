// Memory that grows for good. Pure, on numbers.
#pragma once

#include <optional>
#include <vector>

#include "core/slow/number_finding.h"
#include "core/slow/series.h"

namespace ncclwatch::diagnosis {

// memory_allocated that rises and does not fall back is a leak; memory_reserved that rises while memory_allocated does
// not, fragmentation. Of the latter at most one is told, and of both the leak.
std::optional<NumberFinding> FindMemoryGrowth(const std::vector<RankNumbers>& ranks);

}  // namespace ncclwatch::diagnosis
