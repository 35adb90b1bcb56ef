// How the work of a job went on, line by line: after which lines its processes worked on. Pure.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

// Whether `match` says how its rank ended.
bool SpeaksOfEnd(const Rule& rule, const Match& match);

// Which lines can have ended a rank. A rank that went on after a line did not end of it.
class Course {
 public:
  Course(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files);

  bool WentOn(const ScannedFile& file, const Match& match) const;
  // It stands in the last lines of its process, and no work follows.
  bool IsLast(const ScannedFile& file, const Match& match) const;
  // The job has done its work, and nobody says that it ended badly.
  bool succeeded() const { return succeeded_; }
  // Whoever worked stopped writing in the midst of it, and nobody says why.
  bool fell_silent() const { return fell_silent_; }

 private:
  bool DeniesSuccess(const ScannedFile& file, const Match& match) const;
  bool EndedLater(const ScannedFile& file, const Match& match) const;
  bool Worked(const ScannedFile& file, const Match& match) const;
  std::uint64_t Success(const ScannedFile& file, int rank) const;

  const std::vector<Rule>& rules_;
  std::optional<absl::Time> last_progress_;  // of any process
  bool succeeded_ = false, fell_silent_ = false;
};

}  // namespace ncclwatch::analyzer
