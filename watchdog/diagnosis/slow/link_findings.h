// Communication that takes longer, as a finding.
#pragma once

#include <optional>

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/slow/topology.h"
#include "watchdog/diagnosis/steps/step_table.h"
#include "watchdog/diagnosis/view/view.h"

namespace ncclwatch::diagnosis {

std::optional<Finding> LinkFinding(const View& view, const StepTable& table, const Topology& topology,
                                   double least_share);

}  // namespace ncclwatch::diagnosis
