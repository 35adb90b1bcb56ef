// What the program's own numbers say, as findings.
#pragma once

#include <vector>

#include "core/model/finding.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

std::vector<Finding> NumberFindings(const View& view);

}  // namespace ncclwatch::diagnosis
