// Jobs with one fault each, at the instant at which they are to be judged.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {

struct Fault {
  std::string name;
  std::function<Job()> make;
};

// Every one of 8 ranks, most with further communicators of neighbours and of strides, as tensor and data parallel jobs
// have them.
std::vector<Fault> Faults();

}  // namespace ncclwatch::testing
