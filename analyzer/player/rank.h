// One rank of a replay: this process.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "analyzer/player/base/play.h"
#include "analyzer/replay/fates.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::analyzer {

rundir::Place OwnPlace();  // what the launcher of this process says

std::string ResultFile(const std::string& directory, int rank);
// Why a rank's part of the recording cannot be played.
std::string FailureFile(const std::string& directory, int rank);

// Plays the list, writes what it has measured, and stays until the others are done or this process is ended: a rank
// that had no more to do in the recording is not gone here either. `box` is the recorded process: if it had ended by
// the recording's verdict, or stood still, so does this one. An error: it cannot be played.
absl::Status PlayRank(const std::string& on, player::Script* script, const Fates& fates, const reader::BoxImage& box,
                      const std::string& directory);

}  // namespace ncclwatch::analyzer
