// Steps that take longer than in an earlier run, or than before in this one: how much, and which part of them. Pure, on
// numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

// Medians over ranks and steps, in nanoseconds.
struct StepLevels {
  double step = 0, compute = 0, exposed = 0, wait = 0, idle = 0;
};

struct Regression {
  enum class Part { kUnknown, kSeveral, kCompute, kExposed, kWait, kIdle };
  StepLevels before, after;
  double change = 0;                 // of the step time: after / before - 1
  double errors = 0;                 // standard errors between them
  Part part{};                       // which has at least 80 % of what was added
  std::vector<std::size_t> rows;     // of part kCompute: who computes longer, if not most do
  std::optional<std::size_t> onset;  // in this run: index into the table
};

// Against an earlier run. None: both have fewer than 20 steps, the steps do not take `least` longer, or that may be
// chance.
std::optional<Regression> FindRegression(const StepTable& now, const StepTable& baseline, double least);

// Within the run: from a step on for good. None too where the program itself may have changed what a step is: the
// sizes of its calls, its tokens, or the length of its steps has changed before, to and fro or little by little.
std::optional<Regression> FindRise(const StepTable& table, double least);

}  // namespace ncclwatch::diagnosis
