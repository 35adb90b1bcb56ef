// What the job finds when it starts under `ncclwatch run`: its library, its run directory, its variables.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <utility>

#include "analyzer/files/descriptor.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::analyzer {

// libncclwatch.so of this installation.
absl::StatusOr<std::string> FindLibrary();

// LD_PRELOAD with the library in front; what the user preloads stays. Unchanged if it names a libncclwatch already.
std::string Preload(const std::string& library, const std::string& before);
// Whether it names one.
bool PreloadsOurs(const std::string& before);

// The place of this job's black boxes (see rundir/run_directory.h).
class RunPlace {
 public:
  // The user's own directory if the settings name one, which then stays in any case; else a new one of ours.
  static absl::StatusOr<RunPlace> Make(const settings::Settings& settings, const std::string& command);
  const std::string& path() const { return path_; }
  bool ours() const { return static_cast<bool>(held_); }
  // A name of the library without spaces and colons, which LD_PRELOAD cannot hold: a link in the run directory.
  absl::StatusOr<std::string> NameFor(const std::string& library) const;
  // Removes it, if it is ours and no process of it lives, or the user's and as empty as it was made.
  void Remove();

 private:
  RunPlace(std::string path, Descriptor held) : path_(std::move(path)), held_(std::move(held)) {}
  std::string path_;
  Descriptor held_;    // of HoldPlace
  bool made_ = false;  // the user's, and not there before
};

}  // namespace ncclwatch::analyzer
