// A rank that is late by so little that hundreds of steps are needed to tell it. What is kept of them is a sum for each
// rank, however long the job runs. Pure, on numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

// Lateness as shares of the step: how many steps, their sum and that of their squares. Twenty steps make one value, so
// that steps which resemble their neighbours do not count as many.
struct LatenessSums {
  struct Rank {
    double block = 0, steps = 0;  // of the values that are not whole
    double values = 0, sum = 0, squares = 0;
  };
  std::map<int, Rank> ranks;
  std::uint64_t next_step = 0;  // the first that has not been added
  double step_ns = 0;           // of a step, on average
};

// The steps of the table that have not been added, but for the last two, of which some ranks may not have told all.
// Older ones count less and less.
void AddLateness(const StepTable& table, LatenessSums* sums);

struct Chronic {
  int rank = -1;
  double share = 0;      // of the step, that it comes later than the middle of the ranks
  double certainty = 0;  // standard errors
  std::uint64_t steps = 0;
};

// One rank of eight at least, whose lateness is `least` of the step or more, as the steps of `now` bear out, and is no
// other's. None below 200 steps.
std::optional<Chronic> FindChronic(const LatenessSums& sums, const StepTable& now, double least);

}  // namespace ncclwatch::diagnosis
