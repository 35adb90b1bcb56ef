// How each rank ended, by its own last lines and by what launchers, schedulers and kernels say of it. Pure.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/triage/course.h"
#include "analyzer/triage/other_jobs.h"
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

// By time; those without a time come last.
std::vector<RankEnd> EndsOf(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, const Course& course,
                            const OtherJobs& others);

// The first that is no consequence; nullptr: there is none.
const RankEnd* FirstEnd(const std::vector<RankEnd>& ends);

}  // namespace ncclwatch::analyzer
