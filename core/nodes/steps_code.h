// The steps of a node's ranks on their way to the hub. Every body stands alone: one that is lost is missed, and no
// more. Pure; nothing here trusts a byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/steps/reported_steps.h"

namespace ncclwatch::nodes {

// All of one boot. Ranks that have nothing to tell are left out. In several bodies where one would be too large.
std::vector<std::string> WriteSteps(const std::vector<diagnosis::ReportedRank>& ranks);
std::optional<std::vector<diagnosis::ReportedRank>> ReadSteps(std::string_view body);

}  // namespace ncclwatch::nodes
