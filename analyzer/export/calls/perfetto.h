// Recorded calls as a trace for ui.perfetto.dev: a process for each rank, in it a track for each communicator, a slice
// for each call; flows join the calls that met.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/export/calls/exporter.h"

namespace ncclwatch::analyzer::exporting {

// A file that gets longer than `most_bytes` is ended, and the next one goes on in time: "job.pftrace", "job-2.pftrace".
std::unique_ptr<Exporter> ToPerfetto(const Source& source, const std::string& path, std::uint64_t most_bytes);

}  // namespace ncclwatch::analyzer::exporting
