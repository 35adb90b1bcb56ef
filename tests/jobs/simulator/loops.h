// The loops that people write, for the steps that are found in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/jobs/simulator/generate.h"

namespace ncclwatch::jobs {

const std::vector<std::string>& LoopNames();
// Healthy, run to its end. False: there is no such loop.
bool GenerateLoop(const std::string& name, std::uint64_t seed, Generated* made);

}  // namespace ncclwatch::jobs
