// All that files tell of one incident: black boxes and recordings, logs, events.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/jobs/attempts.h"
#include "analyzer/triage/matcher.h"
#include "analyzer/triage/verdict.h"
#include "core/model/finding.h"

namespace ncclwatch::investigate {

struct JobEvent {  // a line of events.jsonl
  absl::Time at;
  std::string type;
  int rank = -1;
  std::optional<std::uint64_t> step;
};

struct Run {  // a watched job
  diagnosis::Diagnosis diagnosis;
  analyzer::Attempts attempts;
  absl::Time began, ended;  // of what its boxes tell
  std::size_t steps = 0;    // that could be cut out of its calls; 0: none
  double step_s = 0;        // the median of one
};

struct Material {
  std::vector<std::string> words;  // as the user named them
  std::optional<Run> run;
  std::shared_ptr<const analyzer::Matcher> matcher;  // whose rules `triage` points to
  std::optional<analyzer::Triage> triage;
  std::size_t log_files = 0;
  std::vector<JobEvent> events;    // by time
  std::vector<std::string> notes;  // what could not be read
};

// Run directories, recordings, folders and files of logs, in any mixture.
absl::StatusOr<Material> Gather(const std::vector<std::string>& words, const analyzer::AttemptChoice& choice);

}  // namespace ncclwatch::investigate
