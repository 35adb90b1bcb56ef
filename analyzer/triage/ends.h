// How each rank ended, by its own last lines and by what launchers, schedulers and kernels say of it. Pure.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

enum class EndKind { kException, kSignal, kExit, kKilled, kTimeLimit, kCancelled, kNormal, kSilent };
std::string_view Name(EndKind how);

struct RankEnd {
  int rank = -1;  // -1: not known, or the whole job
  EndKind how = EndKind::kSilent;
  std::optional<int> status;  // of an exit, or the number of a signal
  std::optional<absl::Time> at;
  std::string file;
  std::uint64_t line = 0;
  bool consequence = false;  // of the end of another rank
};

// Which lines of a job can have ended a rank. A rank that went on after a line did not end of it.
class Course {
 public:
  Course(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files);

  bool WentOn(const ScannedFile& file, const Match& match) const;
  // It stands in the last lines of its rank, and no work follows.
  bool IsLast(const ScannedFile& file, const Match& match) const;
  // The job has done its work, and nobody says that it ended badly.
  bool succeeded() const { return succeeded_; }

 private:
  std::uint64_t LastProgress(const ScannedFile& file, int rank) const;
  std::uint64_t Success(const ScannedFile& file, int rank) const;

  const std::vector<Rule>& rules_;
  bool succeeded_ = false;
};

// By time; those without a time come last.
std::vector<RankEnd> EndsOf(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files,
                            const Course& course);

// The first that is no consequence; nullptr: there is none.
const RankEnd* FirstEnd(const std::vector<RankEnd>& ends);

}  // namespace ncclwatch::analyzer
