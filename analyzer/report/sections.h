// What the page shows beside the calls: a value of JSON for each section. Their keys are read by page/*.js alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "analyzer/recording/recording.h"
#include "core/model/finding.h"
#include "core/view/view.h"

namespace ncclwatch::analyzer {

// Who waits for whom, ranks that wait alike put together. `findings`: what is explained by a mismatch is no wait.
nlohmann::ordered_json WaitsSection(const diagnosis::View& view, const std::vector<diagnosis::Finding>& findings);

// How far each member of each communicator has come.
nlohmann::ordered_json ProgressSection(const diagnosis::View& view);

// Steps in their parts, as medians over the ranks and over the steps, and the program's own numbers by step.
nlohmann::ordered_json StepsSection(const Recording& recording);

// What if nobody were slow (analyzer/ideal), where there are steps and not too many calls.
nlohmann::ordered_json IdealSection(const Recording& recording);

// Messages and waiting between each two ranks; between groups of ranks in a large job.
nlohmann::ordered_json PeersSection(const Recording& recording);

// Versions, libraries, hosts and GPUs, each value with its ranks.
nlohmann::ordered_json EnvironmentSection(const std::vector<reader::BoxImage>& boxes);

// The threads that matter, as far as somebody has read their stacks.
nlohmann::ordered_json StacksSection(const reader::RunImage& run);

}  // namespace ncclwatch::analyzer
