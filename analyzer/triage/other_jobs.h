// Lines of a scheduler's log that are about other jobs than the one whose logs these are. Pure.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

class OtherJobs {
 public:
  explicit OtherJobs(const std::vector<ScannedFile>& files);

  // The line names a `JobId` that is not this job's. If the job's own number is not known: at a time at which it did
  // not end.
  bool Has(const Match& match) const;

 private:
  std::set<std::string> own_;               // numbers, by names of files and by what launchers say of steps
  std::optional<absl::Time> worked_until_;  // by the lines of processes, and of progress
};

}  // namespace ncclwatch::analyzer
