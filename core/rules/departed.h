// Who among the two ends of each message that has gone wrong has done otherwise than in its own steps before, while
// all others have not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/compare/own_habit.h"
#include "core/model/finding.h"
#include "core/waits/unmatched.h"

namespace ncclwatch::diagnosis {

struct Departed {
  int node = -1;
  OwnBreak what;
  std::vector<Unmatched> explained;  // what it has to do with
  std::vector<int> others;           // ranks that are known to have kept to their steps
};

// None if nobody has, or several, or the steps have changed for others as well. `resized`: these messages have met, and
// differ in size.
std::optional<Departed> FindDeparted(const View& view, const std::vector<Unmatched>& messages, bool resized);

// What it did, what came of it, and what it did before.
std::string DepartedText(const View& view, const Departed& departed);
std::vector<std::string> DepartedEvidence(const View& view, const Departed& departed);
// Its call, and those of the others that it has to do with.
std::vector<CallSummary> DepartedCalls(const View& view, const Departed& departed);

}  // namespace ncclwatch::diagnosis
