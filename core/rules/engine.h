// Runs the rules of a table in their phases, puts what they find in order and bounds it. Knows no rule by name.
#pragma once

#include <vector>

#include "core/model/snapshot.h"
#include "core/rules/rule.h"

namespace ncclwatch::diagnosis {

// The view is that of the snapshot. `checked` gets a row for each rule.
std::vector<Finding> RunRules(const Snapshot& snapshot, const View& view, const RuleTable& table,
                              std::vector<CheckedRule>* checked);

}  // namespace ncclwatch::diagnosis
