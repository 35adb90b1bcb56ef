// Recorded calls as comma-separated values, as `trace --csv` prints them.
#pragma once

#include <memory>
#include <string>

#include "analyzer/export/calls/exporter.h"

namespace ncclwatch::analyzer::exporting {

std::unique_ptr<Exporter> ToCsv(const Source& source, const std::string& path);

}  // namespace ncclwatch::analyzer::exporting
