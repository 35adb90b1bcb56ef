// Which step of its training a call belongs to. Pure, on numbers that stand for calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/steps/period.h"

namespace ncclwatch::diagnosis {

struct StepCount {
  std::uint64_t number = 0;  // counted from 0
  bool exact = false;        // counted from the process's first call on
  std::optional<std::uint64_t>
      call;                 // counted from 1; none: it is no call of the step, or where steps begin is unknown
  std::uint64_t calls = 0;  // of a step
};

// The calls after the last step that was as all are, and what a step is: [block, block + length).
struct OpenStep {
  std::size_t rest = 0;
  std::size_t block = 0;
  std::size_t length = 0;
  std::size_t steps = 0;  // that were as all are
};
std::optional<OpenStep> OpenStepOf(const std::vector<Symbol>& symbols, bool whole);

// Of the last of the calls; `whole`: the first of them is the first that the process made.
std::optional<StepCount> CountSteps(const std::vector<Symbol>& symbols, bool whole);

// Every step that was as all are: where its first call is, and its number.
struct NumberedStep {
  std::size_t begin = 0;
  std::uint64_t number = 0;
};
// Empty: there are none.
std::vector<NumberedStep> StepsOf(const std::vector<Symbol>& symbols, bool whole, Layers layers);

}  // namespace ncclwatch::diagnosis
