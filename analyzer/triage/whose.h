// Whose line it is, where the line alone does not say: by what other lines say of processes, hosts and local ranks.
#pragma once

#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

void SettleRanks(std::vector<ScannedFile>* files);

}  // namespace ncclwatch::analyzer
