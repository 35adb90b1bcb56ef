// Communication that takes longer than before, or than where else the same is done, and what those who lose by it
// share. Pure, on numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/slow/tomography.h"
#include "core/slow/topology.h"
#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

struct SlowLinks {
  // Whose data take longer. All of `rows` lie behind what is named; nothing is named where all lose.
  std::vector<std::size_t> rows;  // of the table; empty: all
  std::vector<std::string> hosts;
  std::optional<int> rail;        // GPUs of this number, on all hosts
  std::string switch_name;        // empty: none
  std::vector<std::size_t> pair;  // two rows, or none
  // What explains it: none, or several, are slow at once. And what each alone would explain it as well.
  std::vector<Component> parts, instead;

  std::size_t example = 0;                // the transfers that lost most: index into the table's
  double before_ns = 0, after_ns = 0;     // of one of those
  std::size_t slower = 0, as_before = 0;  // how many transfers
  std::size_t onset = 0;                  // step, index into the table
  bool since_before = false;              // slower than their like from the first step on
  double certainty = 0;                   // standard errors of the example
  double share = 0;                       // of the step time that is lost
};

// The bandwidth of a transfer falls by more than `least_loss` (0.2: by a fifth), and steps take longer by more than
// `least_share`. Silent about fewer than 20 timed calls, and about what may be chance.
std::optional<SlowLinks> FindSlowLinks(const StepTable& table, const Topology& topology, double least_loss,
                                       double least_share);

}  // namespace ncclwatch::diagnosis
