// Clocks of hosts that are far from one another.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/import/inspector/instants.h"
#include "analyzer/import/inspector/joined.h"

namespace ncclwatch::analyzer::import::inspector {

// By host: how far its clock is ahead of that of `of`, if by more than a second. `hosts`: by row.
std::vector<std::int64_t> ClocksAhead(const std::vector<const Joined*>& communicators, const std::vector<int>& hosts,
                                      int of, Timing timing);

}  // namespace ncclwatch::analyzer::import::inspector
