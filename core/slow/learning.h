// A training that does not learn, or no longer. Pure, on numbers.
#pragma once

#include <optional>
#include <vector>

#include "core/slow/number_finding.h"
#include "core/slow/series.h"

namespace ncclwatch::diagnosis {

// The loss stays at that of guessing, ln(classes). None: the program does not say how many classes there are.
std::optional<NumberFinding> FindNotLearning(const std::vector<RankNumbers>& ranks);

// The loss fell and has stopped to.
std::optional<NumberFinding> FindLossPlateau(const std::vector<RankNumbers>& ranks);

}  // namespace ncclwatch::diagnosis
