// A recording replayed on the model.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "analyzer/commands/replay/request.h"
#include "analyzer/console/command.h"
#include "analyzer/recording/recording.h"
#include "analyzer/replay/fit.h"

namespace ncclwatch::analyzer {

struct Fitted {
  Fit fit;
  FitError error;
  std::string why_bad;  // empty: it is good
};
// As `replay --fit WORD` asks: a recording, or "self" for this one.
absl::StatusOr<Fitted> FitAsAsked(const std::string& word, const Recording& recording);

// Replays, prints, and writes what is asked for. fitted: null: costs are the model's own. The exit status.
int ReplayOnModel(const Command& self, const Recording& recording, const Fitted* fitted, const ReplayRequest& request);

}  // namespace ncclwatch::analyzer
