// What slows a job that goes on: findings like those of a diagnosis, never certain.
#pragma once

#include <vector>

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/model/snapshot.h"

namespace ncclwatch::diagnosis {

// A share of the step time below which nobody is told of.
inline constexpr double kLeastShareLost = 0.03;

// Pure and thread-safe, like Diagnose.
std::vector<Finding> FindSlow(const Snapshot& snapshot);

}  // namespace ncclwatch::diagnosis
