// What has happened over weeks: events and failures, from files of several kinds.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

namespace ncclwatch::correlate {

inline constexpr double kDay_s = 86400;

struct Event {
  double at = 0;          // seconds since 1970
  std::string type;       // "checkpoint", "failure"
  std::string category;   // of a failure
  std::string host, job;  // empty: not said
};

struct History {
  std::vector<Event> events, failures;  // by time
  std::vector<std::string> notes;       // what was left out, and why
};

// Lines of events.jsonl, CSV with a header (timestamp, event_type, category, host, job), Slurm's `sacct -P`. Folders
// are searched for events.jsonl, .jsonl, .csv and .sacct files.
absl::Status AddFile(const std::string& path, History* history);
// By time; failures of one category in one job within a minute are one.
void Settle(History* history);

}  // namespace ncclwatch::correlate
