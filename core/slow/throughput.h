// What the program says of its own speed falls. Pure, on numbers.
#pragma once

#include <optional>
#include <vector>

#include "core/slow/number_finding.h"
#include "core/slow/series.h"

namespace ncclwatch::diagnosis {

// tokens_per_s, or else mfu, by 5 % or more and for good.
std::optional<NumberFinding> FindSlowerProgram(const std::vector<RankNumbers>& ranks);

}  // namespace ncclwatch::diagnosis
