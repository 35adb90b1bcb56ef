// Communication that takes longer, as a finding.
#pragma once

#include <optional>

#include "core/model/finding.h"
#include "core/slow/topology.h"
#include "core/steps/step_table.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

std::optional<Finding> LinkFinding(const View& view, const StepTable& table, const Topology& topology,
                                   double least_share);

}  // namespace ncclwatch::diagnosis
