// Traces of torch's profiler as processes of a recording.
#pragma once

#include <string>
#include <vector>

#include "analyzer/import/base/trace.h"

namespace ncclwatch::analyzer::import::kineto {

// One file for each rank, or for each window of a rank; plain or compressed by gzip. What is kept of them all is in
// memory at once, about 300 bytes for each kernel: only together do they tell which calls are the same one.
void ReadTraces(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done);

}  // namespace ncclwatch::analyzer::import::kineto
