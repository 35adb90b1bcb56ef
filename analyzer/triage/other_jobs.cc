#include "analyzer/triage/other_jobs.h"

#include <re2/re2.h>

#include <algorithm>
#include <string_view>

#include "analyzer/triage/whose.h"

namespace ncclwatch::analyzer {

OtherJobs::OtherJobs(const std::vector<ScannedFile>& files) {
  // As Slurm names files: "slurm-4242.out", "job.424242.0.out", "424242_1.err". Numbers of hosts and dates are none.
  static const RE2 in_name(R"((?:slurm-|job[._-]?)(\d{4,})[^/]*$|(?:^|/)(\d{5,})[._][^/]*$)");
  for (const ScannedFile& file : files) {
    std::string named, bare;
    if (RE2::PartialMatch(file.file.path, in_name, &named, &bare)) own_.insert(named.empty() ? bare : named);
    for (const Match& match : file.matches) {
      const std::string_view step = FieldOf(match, "id");
      if (!FieldOf(match, "what").empty()) own_.emplace(step.substr(0, step.find('.')));
    }
    for (const Stream& stream : file.streams)
      if (!file.kernel)
        worked_until_ = std::max(worked_until_, stream.is_process() ? stream.last_at : stream.progress_at);
  }
}

bool OtherJobs::Has(const Match& match) const {
  constexpr absl::Duration kAround = absl::Minutes(10);
  static const RE2 pattern(R"(\bJobId=(\d+))");
  std::string job;
  if (!RE2::PartialMatch(match.text, pattern, &job) || own_.count(job)) return false;
  if (!own_.empty() || !match.at || !worked_until_) return true;
  return absl::AbsDuration(*match.at - *worked_until_) > kAround;
}

}  // namespace ncclwatch::analyzer
