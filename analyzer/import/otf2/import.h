// OTF2 archives as recordings, by OTF2's own library.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "analyzer/import/base/trace.h"

namespace ncclwatch::analyzer::import::otf2 {

// The library may crash on a damaged archive: a child process reads, so that this is no more than a failure.
// `anchors`: files traces.otf2.
absl::StatusOr<Imported> ImportArchives(const std::vector<std::string>& anchors, const TraceWriter& writer,
                                        FilesRead done);

}  // namespace ncclwatch::analyzer::import::otf2
