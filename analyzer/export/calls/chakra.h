// Recorded communication as Chakra execution traces (https://github.com/mlcommons/chakra), a file for each rank, for
// simulators.
#pragma once

#include <memory>
#include <string>

#include "analyzer/export/calls/exporter.h"

namespace ncclwatch::analyzer::exporting {

std::unique_ptr<Exporter> ToChakra(const Source& source, const std::string& folder);

}  // namespace ncclwatch::analyzer::exporting
