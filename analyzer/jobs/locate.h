// From what the user wrote (nothing, `latest`, directories, files) to black boxes.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/jobs/attempts.h"
#include "core/reader/box.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::analyzer {

struct Located {
  std::vector<std::string> paths;  // directories of the attempt that was chosen, and files; each exists
  Attempts attempts;
};
// The directories and files meant by `words`; `latest` and no word at all are the job of the newest run directory.
absl::StatusOr<Located> Locate(const std::vector<std::string>& words, const AttemptChoice& choice = {});
// Likewise of a single word, which may be empty: its newest attempt.
absl::StatusOr<std::string> LocateOne(const std::string& word);

std::vector<rundir::Listed> ListRuns();  // newest first

bool IsAttempt(std::string_view name);  // "attempt-1"
// Also "run-2": folders that a run directory may hold besides its own boxes.
bool IsNested(std::string_view name);
// The directories at and below `place` that hold boxes: itself, attempt-N and run-N (see rundir/run_directory.h).
std::vector<std::string> BoxDirectories(const std::string& place);
// Also those that hold none yet.
std::vector<std::string> PlaceDirectories(const std::string& place);
std::vector<std::string> BoxFiles(const std::string& directory);

// With a progress bar where that takes long. Damaged files are in failures.
reader::RunImage ReadJob(const std::vector<std::string>& paths, reader::Calls calls);
// "ncclwatch: PATH: REASON" on stderr for each.
void SayFailures(const std::vector<reader::Failure>& failures);

}  // namespace ncclwatch::analyzer
