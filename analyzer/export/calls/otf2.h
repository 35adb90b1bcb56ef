// Recorded calls as an OTF2 archive, for Vampir, Score-P's tools and otf2-print: a process for each rank, a location
// for each of its threads, a region for each function, what a call was made with as attributes.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "analyzer/export/calls/exporter.h"

namespace ncclwatch::analyzer::exporting {

// Not to be made where the folder cannot be written.
absl::StatusOr<std::unique_ptr<Exporter>> ToOtf2(const Source& source, const std::string& folder);

}  // namespace ncclwatch::analyzer::exporting
