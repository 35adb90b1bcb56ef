// `ncclwatch triage --follow`: logs that grow, until what happened to the job is clear.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/triage/matcher.h"
#include "analyzer/triage/scan.h"
#include "analyzer/triage/verdict.h"

namespace ncclwatch::analyzer {

// Scans a file again only if it has changed. Not thread-safe.
class GrowingLogs {
 public:
  GrowingLogs(const Matcher& matcher, std::vector<std::string> paths) : matcher_(matcher), paths_(std::move(paths)) {}

  // Whether a file has changed, come or gone since the last call.
  absl::StatusOr<bool> Refresh();
  std::vector<ScannedFile> files() const;
  absl::Time last_change() const;  // by the times of the files; the distant past: there is no file

 private:
  struct Known {
    std::filesystem::file_time_type changed;
    ScannedFile scanned;
    LogFile file;  // as it was found
  };
  bool IsCurrent(const LogFile& file, std::filesystem::file_time_type changed) const;

  const Matcher& matcher_;
  const std::vector<std::string> paths_;
  std::map<std::string, Known> known_;  // by path
};

struct FollowOptions {
  HarmlessLines baseline;
  absl::Duration look = absl::Seconds(1);     // between two looks at the files
  absl::Duration settle = absl::Seconds(10);  // without a new line, after a failure
  std::function<void(const Triage&)> report;  // something has failed; more may follow
  std::function<bool()> stopped;              // by the user
};

// Returns the verdict when the job has ended, has failed and writes no more, or has been silent for long.
absl::StatusOr<Triage> FollowLogs(const Matcher& matcher, const std::vector<std::string>& paths,
                                  const FollowOptions& options);

// A cause that is more than suspected, or a failure that no rule knows.
bool IsFailure(const Triage& triage);

}  // namespace ncclwatch::analyzer
