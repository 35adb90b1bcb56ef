// How the work of a job went on, line by line: after which lines its processes worked on. Pure.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

// Whether `match` says how its rank ended.
bool SpeaksOfEnd(const Rule& rule, const Match& match);

// Which lines can have ended a rank. A rank that went on after a line did not end of it.
class Course {
 public:
  // Keeps references to both.
  Course(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files);

  bool WentOn(const ScannedFile& file, const Match& match) const;
  // It stands in the last lines of its process, and no work follows.
  bool IsLast(const ScannedFile& file, const Match& match) const;
  // The job has done its work, and nobody says that it ended badly.
  bool succeeded() const { return succeeded_; }
  // Whoever worked stopped writing in the midst of it, and nobody says why.
  bool fell_silent() const { return fell_silent_; }
  std::optional<absl::Time> last_progress() const { return last_progress_; }

 private:
  // Of one file, by line; 0: there is none.
  struct Track {
    std::uint64_t two_steps = 0;              // some stream makes two steps from here on
    std::vector<std::uint64_t> steps, ends;   // the last of each stream
    std::uint64_t success = 0;                // the job, or a rank, has done its work
    std::map<int, std::uint64_t> success_of;  // by rank; -1: not known
  };

  void NoteSteps(const ScannedFile& file);
  void NoteMatches(const ScannedFile& file);
  bool DeniesSuccess(const ScannedFile& file, const Match& match) const;
  bool Worked(const ScannedFile& file, const Match& match) const;
  std::uint64_t Success(const ScannedFile& file, int rank) const;
  const Track& TrackOf(const ScannedFile& file) const { return tracks_.at(&file); }

  const std::vector<Rule>& rules_;
  std::map<const ScannedFile*, Track> tracks_;
  std::optional<absl::Time> last_progress_;  // of any process
  bool succeeded_ = false, fell_silent_ = false;
};

}  // namespace ncclwatch::analyzer
