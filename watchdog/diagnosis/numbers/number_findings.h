// What the program's own numbers say, as findings.
#pragma once

#include <vector>

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/view/view.h"

namespace ncclwatch::diagnosis {

std::vector<Finding> NumberFindings(const View& view);

}  // namespace ncclwatch::diagnosis
