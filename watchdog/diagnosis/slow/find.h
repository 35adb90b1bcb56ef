// What slows a job that goes on, and what its own numbers say: findings like those of a diagnosis, never certain.
#pragma once

#include <vector>

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/model/snapshot.h"
#include "watchdog/diagnosis/slow/step_table.h"

namespace ncclwatch::diagnosis {

// A share of the step time below which nobody is told of.
inline constexpr double kLeastShareLost = 0.03;

inline constexpr double kLeastRegression = 0.05;  // likewise, against an earlier run

// Pure and thread-safe, like Diagnose. `baseline`: of an earlier run, null: there is none.
std::vector<Finding> FindSlow(const Snapshot& snapshot, const StepTable* baseline = nullptr);

}  // namespace ncclwatch::diagnosis
