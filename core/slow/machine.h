// What the machines themselves counted and logged, quoted beside a finding: it never decides.
#pragma once

#include <vector>

#include "core/model/finding.h"
#include "core/reader/beside/machine.h"

namespace ncclwatch::diagnosis {

// Behind the evidence of each finding: what rose on the hosts of its culprits, or on any host where it has none, from
// ten minutes before it began until it was detected. Of what is one GPU's only that of the culprits'. Where a slow link
// or GPU is told and nothing rose, that is said too, with what could not be read. What was quoted before goes.
void AddMachines(const std::vector<reader::MachineSample>& machines, std::vector<Finding>* findings);

}  // namespace ncclwatch::diagnosis
