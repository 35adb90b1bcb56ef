// Chakra's execution traces as traces of calls: one file for each rank, as protocol buffers or as JSON.
#pragma once

#include <string>
#include <vector>

#include "analyzer/import/base/trace.h"

namespace ncclwatch::analyzer::import::chakra {

void ReadTraces(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done);

}  // namespace ncclwatch::analyzer::import::chakra
