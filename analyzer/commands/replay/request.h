// What `ncclwatch replay` is asked for.
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/console/command.h"
#include "analyzer/jobs/attempts.h"
#include "analyzer/player/real.h"
#include "analyzer/replay/program.h"
#include "analyzer/steps/steps.h"

namespace ncclwatch::analyzer {

struct ReplayRequest {
  std::vector<std::string> words, delays, slower, dropped, links, communicators;
  AttemptChoice attempt;
  nlohmann::ordered_json attempts;
  std::string ranks, steps;
  std::string on = "model", out, fit, launcher, meet;
  int start = 0, loops = 1, scale = 0;
  std::string merge_text, time_limit_text = "2m";
  bool no_gaps = false, one_rank = false, json = false, shrink = false, ideal = false;

  // As the texts say:
  WhatIf what_if;
  std::optional<StepRange> range;
  std::uint64_t merge_below = 0;  // bytes
  absl::Duration time_limit;
};

// Reads the arguments. The exit status if there is nothing more to do.
std::optional<int> ReadRequest(const Command& self, const Arguments& arguments, ReplayRequest* request);

// For whoever plays it on NCCL or MPI.
RealRequest ForReal(const ReplayRequest& request);

// Fails if a rank or a call is named that the recording does not have: it would change nothing, and nobody would
// notice.
absl::Status AllThere(const WhatIf& what_if, const Recording& recording);

}  // namespace ncclwatch::analyzer
