// What the program's own numbers say (annotate.h): who had NaN or Inf first, spikes of the loss, replicas that differ.
// Pure, on numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/slow/series.h"

namespace ncclwatch::diagnosis {

struct NumberFault {
  enum class What { kNotFinite, kSpike, kDivergence };
  What what{};
  std::string metric = {};
  std::int64_t step = 0;
  std::int64_t at_ns = 0;
  std::vector<int> ranks = {};  // that had it first, or differ from the others; empty: all, or no one can tell
  std::size_t all = 0;          // ranks that said this number in that step
  std::optional<double> before = {}, value = {};  // the level until then, and what came
  double score = 0;                               // of a spike: in robust standard deviations
  std::optional<double> gradient_rise = {};  // of what is not finite: its norm in the step before, against its level
};

// At most one of each, the first in the order of steps.
std::vector<NumberFault> FindNumberFaults(const std::vector<RankNumbers>& ranks);

}  // namespace ncclwatch::diagnosis
