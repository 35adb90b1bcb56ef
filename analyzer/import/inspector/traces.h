// NCCL Inspector's files as traces of calls.
#pragma once

#include <string>
#include <vector>

#include "analyzer/import/base/trace.h"

namespace ncclwatch::analyzer::import::inspector {

void ReadTraces(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done);

}  // namespace ncclwatch::analyzer::import::inspector
