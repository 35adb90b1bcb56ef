// Why a process does not run, as its leader saw it from outside: stopped, held, stuck in the kernel, silent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

struct StopReason {
  Kind kind;
  Certainty at_most;
  std::string text;  // after "rank 2 "
};
// None if it runs.
std::optional<StopReason> NotRunning(const View& view, const Process& process);

// What to do about a frozen_process of that kind.
std::vector<std::string> StepsForFrozen(format::Observed what, const std::string& pid);

}  // namespace ncclwatch::diagnosis
