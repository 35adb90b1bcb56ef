// What rules share where they say how sure they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/finding.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// Of so many each that say one thing or another, which of these most say: those who have said nothing yet do not turn
// it.
bool MajorityIsFinal(std::vector<std::size_t> votes, std::size_t all);
// Certainty that time alone gives; none: not worth a word yet.
std::optional<Certainty> ByTime(const View& view, std::int64_t stalled_ns);

}  // namespace ncclwatch::diagnosis
