// Recorded calls as Parquet: OUT/node=NODE/hour=HOUR/part-N.parquet, the columns those of a `trace --json` line.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "analyzer/export/calls/exporter.h"

namespace ncclwatch::analyzer::exporting {

// Failed precondition: there is no Python with pyarrow.
absl::StatusOr<std::unique_ptr<Exporter>> ToParquet(const Source& source, const std::string& folder);

}  // namespace ncclwatch::analyzer::exporting
