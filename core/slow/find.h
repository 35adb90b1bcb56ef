// What slows a job that goes on, and what its own numbers say: findings like those of a diagnosis, never certain.
#pragma once

#include <vector>

#include "core/model/finding.h"
#include "core/model/snapshot.h"
#include "core/slow/chronic.h"
#include "core/slow/topology.h"
#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

// A share of the step time below which nobody is told of.
inline constexpr double kLeastShareLost = 0.03;

inline constexpr double kLeastRegression = 0.05;  // likewise, against an earlier run

// The share of the step time that the stages of a pipeline may idle, unless the user says another.
inline constexpr double kLeastIdle = 0.2;

struct SlowContext {
  const StepTable* baseline = nullptr;  // of an earlier run, null: there is none
  Topology topology;                    // empty: not known
  double least_idle = kLeastIdle;
  LatenessSums* lateness = nullptr;  // of the job's earlier looks, to which this one is added; null: there were none
};

// Pure and thread-safe, like Diagnose.
std::vector<Finding> FindSlow(const Snapshot& snapshot, const SlowContext& context = {});

// What the steps alone say, wherever they are known from: its boxes, or what nodes tell of theirs.
std::vector<Finding> FindSlowSteps(const View& view, const StepTable& table, const SlowContext& context);

}  // namespace ncclwatch::diagnosis
