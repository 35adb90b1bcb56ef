// How late each rank was, as a share of the step, from point to point: a point is one step or, where few kernels are
// timed, as many steps as it takes to have seen each call about once. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

inline constexpr std::size_t kFewestPoints = 20;  // below that nothing is said
inline constexpr double kStandardErrors = 6;      // chance makes that of a thousand ranks once in a million looks
inline constexpr double kLeastLost_ns = 200'000;  // of a step: below that it is the system's scheduling

struct Points {
  bool by_kernels = false;
  std::vector<std::size_t> first;         // step with which a point begins
  std::vector<double> step_ns;            // of a step in it, the median over the ranks
  std::vector<std::vector<double>> late;  // by row, then by point
  double seen = 1;                        // share of the lateness that `late` holds, on average
  std::size_t size() const { return first.size(); }
  bool single_steps() const { return first.empty() || first.back() + 1 == first.size(); }
};

Points PointsOfCalls(const StepTable& table);  // by when ranks called, or for how long they were in a call
// By how much longer each rank was outside of calls that block, and waited less in them: where neighbours exchange
// messages the others wait for whoever waits for nobody. Empty: collectives tell who is late, or no call blocks.
Points PointsOfOwnTime(const StepTable& table);
Points PointsOfKernels(const StepTable& table);  // by how long NCCL's kernels ran; empty: too few were timed
// The same of single steps, as far as the kernels that were timed in each of them tell it. Empty: none was timed.
Points PointsOfTimedKernels(const StepTable& table);

}  // namespace ncclwatch::diagnosis
