// What came of a simulated replay, as a directory that reads like that of a recorded job.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>

#include "analyzer/replay/outcome.h"
#include "analyzer/segments/segment_file.h"

namespace ncclwatch::analyzer {

class RunDirectoryWriter {
 public:
  explicit RunDirectoryWriter(std::string directory);
  // Already exists: it holds a run.
  absl::Status Open() const;
  // Calls of a rank before slot `end`, for OutcomeOf. The first error is returned by Finish.
  void AddOlder(const reader::BoxImage& image, std::uint64_t end);
  absl::Status Finish(const Outcome& outcome);

 private:
  void Append(const std::string& segment);

  const std::string directory_;
  SegmentWriter file_;
  absl::Status status_;
};

}  // namespace ncclwatch::analyzer
