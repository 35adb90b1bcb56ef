// A tally as tables for people, and as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/stats/tally.h"

namespace ncclwatch::analyzer {

nlohmann::ordered_json StatsJson(const Tally& tally, StatsBy by);
// The rows that took most of the time, at most `most` (0: all), and the ranks.
std::string StatsText(const Tally& tally, StatsBy by, std::size_t most);

}  // namespace ncclwatch::analyzer
