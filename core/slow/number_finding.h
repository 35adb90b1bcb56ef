// What the program's own numbers or events come to: a finding, as far as no view is needed for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/finding.h"

namespace ncclwatch::diagnosis {

struct NumberFinding {
  Kind kind{};
  Certainty certainty = Certainty::kSuspected;
  std::vector<int> ranks = {};  // whose fault it is; empty: all, or no one can tell
  std::int64_t step = 0;        // since when
  std::int64_t at_ns = 0;
  bool since_before = false;  // ... or earlier: what is known begins there
  Effect effect = {};
  std::string summary = {};
  std::vector<Fact> facts = {};
  std::vector<std::string> evidence = {}, next_steps = {};
};

}  // namespace ncclwatch::diagnosis
