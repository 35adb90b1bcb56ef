// Which lines of a job's logs count as evidence of its end, and of what kind. Pure.
#pragma once

#include <absl/time/time.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/triage/course.h"
#include "analyzer/triage/ends.h"
#include "analyzer/triage/finding.h"
#include "analyzer/triage/other_jobs.h"

namespace ncclwatch::analyzer {

// What a cause is worth; the first are told first.
enum class Weight {
  kOwn,        // it explains why its process, or the job, ended
  kPeer,       // a lost peer shows the same
  kStatement,  // it says that something ended, not why
  kElsewhere,  // a line of the machine that nothing ties to this job
};

class Evidence {
 public:
  // `files`: with settled ranks. `harmless`: templates of lines that mean nothing.
  Evidence(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files, std::set<std::string> harmless);

  const std::vector<RankEnd>& ends() const { return ends_; }
  const RankEnd* first() const { return FirstEnd(ends_); }
  bool healthy() const { return !only_kernel_ && !fell_silent() && (!failed_ || course_.succeeded()); }
  bool succeeded() const { return course_.succeeded(); }
  bool fell_silent() const { return !failed_ && !only_kernel_ && course_.fell_silent(); }
  std::optional<absl::Time> hung_since() const { return hung_since_; }
  // Ranks that say that they lost others, or waited for them in vain.
  const std::set<int>& lost() const { return lost_; }

  // Whether the match may be told as a cause, an echo or a confirmation.
  bool Counts(const ScannedFile& file, const Match& match) const;
  // A cause that follows from what its process said before: that it lost another one, or waited too long.
  bool Follows(const ScannedFile& file, const Match& match) const;
  Weight WeightOf(const ScannedFile& file, const Match& match) const;
  // It names a process of the job.
  bool IsOfRank(const Match& match) const { return match.rank >= 0 || pids_.count(match.pid) > 0; }
  // Whether the cause's line belongs to an end, or is about what need not stand at one: the machine, numbers.
  bool NearEnd(const TriageFinding& cause) const;

 private:
  bool ShowsFailure(const ScannedFile& file, const Match& match) const;
  bool IsNearAnEnd(absl::Time time, absl::Duration before) const;
  bool IsTied(const Match& match) const;
  bool KilledNear(const Match& match) const;

  const std::vector<Rule>& rules_;
  const std::vector<ScannedFile>& files_;
  const Course course_;
  const OtherJobs others_;
  std::vector<RankEnd> ends_;
  std::optional<absl::Time> first_end_, last_line_;  // of ranks; what the job wrote last
  std::optional<absl::Time> hung_since_;             // by a time limit that was over
  std::set<int> pids_;                               // of the job, as far as known
  std::set<std::string> harmless_;                   // templates of lines after which ranks went on
  std::set<int> lost_;
  std::map<std::tuple<const ScannedFile*, std::size_t, int>, std::uint64_t>
      echoes_;  // by stream and rank, the first line
  bool failed_ = false, only_kernel_ = true, excerpt_ = false;
};

}  // namespace ncclwatch::analyzer
