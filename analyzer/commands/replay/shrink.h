// `ncclwatch replay --shrink`.
#pragma once

#include <string>
#include <vector>

#include "analyzer/commands/replay/request.h"
#include "analyzer/console/command.h"
#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

// Writes the smallest program with the recording's fault, runs it, and prints both. The exit status.
int ShrinkInto(const Command& self, const Recording& recording, const std::vector<std::string>& paths,
               const ReplayRequest& request);

}  // namespace ncclwatch::analyzer
