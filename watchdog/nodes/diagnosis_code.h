// A diagnosis on its way from the hub to the other nodes, which write and quote it as their own. Pure; nothing here
// trusts a byte.
#pragma once

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/nodes/bytes.h"

namespace ncclwatch::nodes {

void WriteDiagnosis(const diagnosis::Diagnosis& diagnosis, Writer* to);
bool ReadDiagnosis(Reader* from, diagnosis::Diagnosis* diagnosis);

}  // namespace ncclwatch::nodes
